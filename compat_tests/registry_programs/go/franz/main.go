// Franz-go's client of schema registries against a registry: URL [USER PASSWORD].
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/sr"
)

var ctx = context.Background()

func main() {
	options := []sr.ClientOpt{sr.URLs(os.Args[1])}
	if len(os.Args) > 2 {
		options = append(options, sr.BasicAuth(os.Args[2], os.Args[3]))
	}
	client := must(sr.NewClient(options...))
	for _, each := range []struct {
		name string
		run  func(*sr.Client)
	}{
		{"api", api}, {"formats", formats}, {"references", references},
		{"levels", levels}, {"modes", modes}, {"contexts", contexts}, {"deletes", deletes},
	} {
		each.run(client)
		fmt.Println("ok", each.name)
	}
}

func avro(fields string) sr.Schema {
	return sr.Schema{Schema: `{"type":"record","name":"Order","namespace":"franz","fields":[` + fields + `]}`}
}

const id, note = `{"name":"id","type":"long"}`, `{"name":"note","type":"string","default":""}`

func api(client *sr.Client) {
	subject := "franz-api-value"
	made := must(client.CreateSchema(ctx, subject, avro(id)))
	equal(must(client.RegisterSchema(ctx, subject, avro(id), -1, -1)), made.ID)
	equal(made.Version, 1)
	broken := avro(`{"name":"id","type":"boolean"}`)
	result := must(client.CheckCompatibility(ctx, subject, -1, broken))
	equal(result.Is, false)
	verbose := sr.WithParams(ctx, sr.Verbose)
	equal(len(must(client.CheckCompatibility(verbose, subject, 1, broken)).Messages) > 0, true)
	equal(must(client.CheckCompatibility(ctx, subject, -1, avro(id+","+note))).Is, true)
	_, err := client.CreateSchema(ctx, subject, broken)
	refused(err, 409, 409)
	newer := must(client.CreateSchema(ctx, subject, avro(id+","+note)))
	equal(must(client.SubjectVersions(ctx, subject)), []int{1, 2})
	equal(must(client.SchemaByVersion(ctx, subject, -1)).ID, newer.ID)
	equal(must(client.SchemaTextByVersion(ctx, subject, 1)), avro(id).Schema)
	equal(must(client.SchemaByID(ctx, newer.ID)).Schema, avro(id+","+note).Schema)
	equal(must(client.SchemaTextByID(ctx, made.ID)), avro(id).Schema)
	equal(slices.Contains(must(client.SubjectsByID(ctx, made.ID)), subject), true)
	equal(must(client.SchemaVersionsByID(ctx, newer.ID))[0].Version, 2)
	equal(must(client.LookupSchema(ctx, subject, avro(id))).Version, 1)
	equal(len(must(client.Schemas(ctx, subject))), 2)
	equal(len(must(client.AllSchemas(ctx))) >= 2, true)
	equal(slices.Contains(must(client.Subjects(ctx)), subject), true)
	prefixed := sr.WithParams(ctx, sr.SubjectPrefix("franz-api"))
	equal(must(client.Subjects(prefixed)), []string{subject})
	equal(len(must(client.SupportedTypes(ctx))), 3)
	_, err = client.SchemaByID(ctx, 999_999)
	refused(err, 404, 40403)
	_, err = client.SchemaByVersion(ctx, subject, 9)
	refused(err, 404, 40402)
	_, err = client.LookupSchema(ctx, "franz-nothing", avro(id))
	refused(err, 404, 40401)
	_, err = client.CreateSchema(ctx, "franz-bad", sr.Schema{Schema: "{"})
	refused(err, 422, 42201)
	guid := must(client.SchemaByVersion(ctx, subject, 2)).GUID
	equal(must(client.SchemaByGUID(ctx, guid)).Schema.Schema, avro(id+","+note).Schema)
	equal(must(client.SchemaIDsByGUID(ctx, guid))[0].ID, newer.ID)
}

type order struct {
	ID int64 `json:"id"`
}

func formats(client *sr.Client) {
	var serde sr.Serde
	for subject, schema := range map[string]sr.Schema{
		"franz-json-value":  {Type: sr.TypeJSON, Schema: `{"type":"object","properties":{"id":{"type":"integer"}}}`},
		"franz-proto-value": {Type: sr.TypeProtobuf, Schema: "syntax = \"proto3\";\npackage franz;\n\nmessage Order {\n  int64 id = 1;\n}\n"},
	} {
		made := must(client.CreateSchema(ctx, subject, schema))
		equal(made.Type, schema.Type)
		found := must(client.SchemaByID(ctx, made.ID))
		equal(found.Type, schema.Type)
		equal(found.Schema, schema.Schema)
		if schema.Type == sr.TypeJSON {
			serde.Register(made.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
			var read order
			bytes := must(serde.Encode(order{7}))
			check(serde.Decode(bytes, &read))
			equal(read.ID, int64(7))
			number, _, _ := serde.DecodeID(bytes)
			equal(number, made.ID)
		}
	}
	broken := sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; package franz; message Order { string id = 1; }`}
	_, err := client.CreateSchema(ctx, "franz-proto-value", broken)
	refused(err, 409, 409)
	broken = sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object","properties":{"id":{"type":"string"}}}`}
	_, err = client.CreateSchema(ctx, "franz-json-value", broken)
	refused(err, 409, 409)
}

func references(client *sr.Client) {
	item := sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; package franz; message Item { string sku = 1; }`}
	must(client.CreateSchema(ctx, "franz/item.proto", item))
	basket := sr.Schema{
		Type:       sr.TypeProtobuf,
		Schema:     `syntax = "proto3"; package franz; import "franz/item.proto"; message Basket { Item item = 1; }`,
		References: []sr.SchemaReference{{Name: "franz/item.proto", Subject: "franz/item.proto", Version: 1}},
	}
	made := must(client.CreateSchema(ctx, "franz-basket-value", basket))
	equal(must(client.SchemaByID(ctx, made.ID)).References, basket.References)
	users := must(client.SchemaReferences(ctx, "franz/item.proto", 1))
	equal(users[0].ID, made.ID)
	refused(client.DeleteSchema(ctx, "franz/item.proto", 1, sr.SoftDelete), 422, 42206)
	missing := basket
	missing.References = []sr.SchemaReference{{Name: "franz/item.proto", Subject: "franz-nothing", Version: 1}}
	_, err := client.CreateSchema(ctx, "franz-missing-value", missing)
	refused(err, 422, 42201)
}

func levels(client *sr.Client) {
	subject := "franz-levels-value"
	must(client.CreateSchema(ctx, subject, avro(id)))
	equal(client.Compatibility(ctx)[0].Level, sr.CompatBackward)
	refused(client.Compatibility(ctx, subject)[0].Err, 404, 40408)
	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFullTransitive}, subject)[0]
	check(set.Err)
	equal(client.Compatibility(ctx, subject)[0].Level, sr.CompatFullTransitive)
	_, err := client.CreateSchema(ctx, subject, avro(id+`,{"name":"more","type":"string"}`))
	refused(err, 409, 409)
	check(client.ResetCompatibility(ctx, subject)[0].Err)
	refused(client.Compatibility(ctx, subject)[0].Err, 404, 40408)
}

func modes(client *sr.Client) {
	subject := "franz-import-value"
	equal(client.Mode(ctx)[0].Mode, sr.ModeReadWrite)
	check(client.SetMode(ctx, sr.ModeImport, subject)[0].Err)
	made := must(client.CreateSchemaWithIDAndVersion(ctx, subject, avro(note), 50_000, 3))
	equal([]int{made.ID, made.Version}, []int{50_000, 3})
	check(client.SetMode(ctx, sr.ModeReadOnly, subject)[0].Err)
	_, err := client.CreateSchema(ctx, subject, avro(id))
	refused(err, 422, 42205)
	check(client.ResetMode(ctx, subject)[0].Err)
	refused(client.Mode(ctx, subject)[0].Err, 404, 40409)
}

func contexts(client *sr.Client) {
	inside := sr.InContext(ctx, ".franz")
	made := must(client.CreateSchema(inside, "franz-inside-value", avro(note)))
	equal(must(client.SchemaByID(inside, made.ID)).Schema, avro(note).Schema)
	equal(slices.Contains(must(client.Contexts(ctx)), ".franz"), true)
	equal(must(client.SubjectVersions(ctx, ":.franz:franz-inside-value")), []int{1})
}

func deletes(client *sr.Client) {
	subject := "franz-deletes-value"
	made := must(client.CreateSchema(ctx, subject, avro(id)))
	must(client.CreateSchema(ctx, subject, avro(id+","+note)))
	check(client.DeleteSchema(ctx, subject, 1, sr.SoftDelete))
	refused(client.DeleteSchema(ctx, subject, 1, sr.SoftDelete), 404, 40406)
	equal(must(client.SubjectVersions(ctx, subject)), []int{2})
	deleted := sr.WithParams(ctx, sr.ShowDeleted)
	equal(must(client.SubjectVersions(deleted, subject)), []int{1, 2})
	equal(must(client.SchemaByID(ctx, made.ID)).Schema, avro(id).Schema)
	refused(client.DeleteSchema(ctx, subject, 2, sr.HardDelete), 404, 40407)
	equal(must(client.DeleteSubject(ctx, subject, sr.SoftDelete)), []int{2})
	equal(must(client.DeleteSubject(ctx, subject, sr.HardDelete)), []int{1, 2})
	_, err := client.SubjectVersions(deleted, subject)
	refused(err, 404, 40401)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%v is not %v", found, expected))
	}
}

func refused(err error, status, code int) {
	var response *sr.ResponseError
	if !errors.As(err, &response) {
		panic(fmt.Sprintf("%v is no refusal", err))
	}
	equal([]int{response.StatusCode, response.ErrorCode}, []int{status, code})
}

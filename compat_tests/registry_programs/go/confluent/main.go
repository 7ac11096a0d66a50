// Confluent's Go client and serializers against a registry: URL [USER PASSWORD].
package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"

	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/rest"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/avrov2"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/jsonschema"
	"github.com/confluentinc/confluent-kafka-go/v2/schemaregistry/serde/protobuf"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func connect() schemaregistry.Client {
	if len(os.Args) > 2 {
		config := schemaregistry.NewConfigWithBasicAuthentication(os.Args[1], os.Args[2], os.Args[3])
		return must(schemaregistry.NewClient(config))
	}
	return must(schemaregistry.NewClient(schemaregistry.NewConfig(os.Args[1])))
}

func main() {
	for _, each := range []struct {
		name string
		run  func()
	}{{"api", api}, {"avro", avro}, {"json", json}, {"protobuf", proto}, {"deletes", deletes}} {
		each.run()
		fmt.Println("ok", each.name)
	}
}

func record(fields string) schemaregistry.SchemaInfo {
	return schemaregistry.SchemaInfo{
		Schema: `{"type":"record","name":"Order","namespace":"cgo","fields":[` + fields + `]}`,
	}
}

const id, note = `{"name":"id","type":"long"}`, `{"name":"note","type":"string","default":""}`

func api() {
	client, subject := connect(), "cgo-api-value"
	number := must(client.Register(subject, record(id), false))
	equal(must(connect().Register(subject, record(id), false)), number)
	broken := record(`{"name":"id","type":"boolean"}`)
	equal(must(client.TestSubjectCompatibility(subject, broken)), false)
	equal(must(client.TestCompatibility(subject, 1, record(id+","+note))), true)
	_, err := client.Register(subject, broken, false)
	refused(err, 409)
	full := must(client.RegisterFullResponse(subject, record(id+","+note), false))
	equal(must(client.GetAllVersions(subject)), []int{1, 2})
	latest := must(connect().GetLatestSchemaMetadata(subject))
	equal([]int{latest.ID, latest.Version}, []int{full.ID, 2})
	equal(must(connect().GetBySubjectAndID(subject, number)).Schema, record(id).Schema)
	equal(must(connect().GetByGUID(latest.GUID)).Schema, record(id+","+note).Schema)
	equal(must(connect().GetID(subject, record(id), false)), number)
	equal(must(connect().GetVersion(subject, record(id+","+note), false)), 2)
	equal(slices.Contains(must(client.GetAllSubjects()), subject), true)
	_, err = connect().GetBySubjectAndID(subject, 999_999)
	refused(err, 40403)
	_, err = connect().GetLatestSchemaMetadata("cgo-nothing")
	refused(err, 40401)

	level := must(client.GetDefaultCompatibility())
	equal(level.String(), "BACKWARD")
	_, err = client.GetCompatibility(subject)
	refused(err, 40408)
	level = must(client.UpdateCompatibility(subject, schemaregistry.None))
	equal(level.String(), "NONE")
	must(client.Register(subject, broken, false))
	info := record(id)
	info.Metadata = &schemaregistry.Metadata{Properties: map[string]string{"owner": "sales"}}
	must(client.Register("cgo-metadata-value", info, false))
	found := must(connect().GetLatestWithMetadata("cgo-metadata-value", map[string]string{"owner": "sales"}, false))
	equal(found.Metadata.Properties["owner"], "sales")
}

type payment struct {
	ID   int64  `avro:"id" json:"id"`
	Note string `avro:"note" json:"note"`
}

func avro() {
	client := connect()
	serializer := must(avrov2.NewSerializer(client, serde.ValueSerde, avrov2.NewSerializerConfig()))
	bytes := must(serializer.Serialize("cgo-avro", &payment{7, "x"}))
	deserializer := must(avrov2.NewDeserializer(connect(), serde.ValueSerde, avrov2.NewDeserializerConfig()))
	var read payment
	check(deserializer.DeserializeInto("cgo-avro", bytes, &read))
	equal(read, payment{7, "x"})

	item := schemaregistry.SchemaInfo{Schema: `{"type":"record","name":"Item","namespace":"cgo","fields":[{"name":"sku","type":"string"}]}`}
	must(client.Register("cgo-item", item, false))
	basket := schemaregistry.SchemaInfo{
		Schema:     `{"type":"record","name":"Basket","namespace":"cgo","fields":[{"name":"item","type":"cgo.Item"}]}`,
		References: []schemaregistry.Reference{{Name: "cgo.Item", Subject: "cgo-item", Version: 1}},
	}
	must(client.Register("cgo-basket-value", basket, false))
	config := avrov2.NewSerializerConfig()
	config.AutoRegisterSchemas, config.UseLatestVersion = false, true
	serializer = must(avrov2.NewSerializer(connect(), serde.ValueSerde, config))
	type content struct {
		Item struct {
			SKU string `avro:"sku"`
		} `avro:"item"`
	}
	var filled, again content
	filled.Item.SKU = "a"
	bytes = must(serializer.Serialize("cgo-basket", &filled))
	check(deserializer.DeserializeInto("cgo-basket", bytes, &again))
	equal(again, filled)
}

func json() {
	serializer := must(jsonschema.NewSerializer(connect(), serde.ValueSerde, jsonschema.NewSerializerConfig()))
	bytes := must(serializer.Serialize("cgo-json", &payment{7, "x"}))
	deserializer := must(jsonschema.NewDeserializer(connect(), serde.ValueSerde, jsonschema.NewDeserializerConfig()))
	var read payment
	check(deserializer.DeserializeInto("cgo-json", bytes, &read))
	equal(read, payment{7, "x"})
}

func proto() {
	serializer := must(protobuf.NewSerializer(connect(), serde.ValueSerde, protobuf.NewSerializerConfig()))
	bytes := must(serializer.Serialize("cgo-proto", &timestamppb.Timestamp{Seconds: 7}))
	deserializer := must(protobuf.NewDeserializer(connect(), serde.ValueSerde, protobuf.NewDeserializerConfig()))
	var read timestamppb.Timestamp
	check(deserializer.DeserializeInto("cgo-proto", bytes, &read))
	equal(read.Seconds, int64(7))
	client := connect()
	text := func(kind string) schemaregistry.SchemaInfo {
		schema := `syntax = "proto3"; package cgo; message Order { ` + kind + ` id = 1; }`
		return schemaregistry.SchemaInfo{SchemaType: "PROTOBUF", Schema: schema}
	}
	must(client.Register("cgo-order-value", text("int64"), false))
	_, err := client.Register("cgo-order-value", text("string"), false)
	refused(err, 409)
}

func deletes() {
	client, subject := connect(), "cgo-deletes-value"
	must(client.Register(subject, record(id), false))
	must(client.Register(subject, record(id+","+note), false))
	equal(must(client.DeleteSubjectVersion(subject, 1, false)), 1)
	_, err := client.DeleteSubjectVersion(subject, 2, true)
	refused(err, 40407)
	equal(must(client.GetAllVersions(subject)), []int{2})
	equal(must(client.DeleteSubject(subject, false)), []int{2})
	_, err = client.DeleteSubject(subject, false)
	refused(err, 40404)
	equal(must(client.DeleteSubject(subject, true)), []int{1, 2})
	_, err = connect().GetAllVersions(subject)
	refused(err, 40401)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	var failure *url.Error
	if errors.As(err, &failure) || err != nil {
		panic(err)
	}
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%v is not %v", found, expected))
	}
}

func refused(err error, code int) {
	var refusal *rest.Error
	if !errors.As(err, &refusal) {
		panic(fmt.Sprintf("%v is no refusal", err))
	}
	equal(refusal.Code, code)
}

// @confluentinc/schemaregistry against a registry: node confluent.js URL [USER PASSWORD]
"use strict";
const assert = require("node:assert/strict");
const { create, createFileRegistry } = require("@bufbuild/protobuf");
const {
  FileDescriptorSetSchema,
  FieldDescriptorProto_Type: Type,
  FieldDescriptorProto_Label: Label,
} = require("@bufbuild/protobuf/wkt");
const {
  AvroDeserializer,
  AvroSerializer,
  Compatibility,
  HeaderSchemaIdSerializer,
  JsonDeserializer,
  JsonSerializer,
  ProtobufDeserializer,
  ProtobufSerializer,
  SchemaRegistryClient,
  SerdeType,
} = require("@confluentinc/schemaregistry");

const [url, username, password] = process.argv.slice(2);
const basicAuthCredentials = username
  ? { credentialsSource: "USER_INFO", userInfo: `${username}:${password}` }
  : undefined;
const connect = () =>
  new SchemaRegistryClient({ baseURLs: [url], basicAuthCredentials, maxRetries: 0 });

const record = (name, fields) => JSON.stringify({ type: "record", name, namespace: "cjs", fields });
const long = (name) => ({ name, type: "long" });

async function refused(promise, status, code) {
  const error = await promise.then(
    () => null,
    (reason) => reason,
  );
  assert.ok(error, "it should be refused");
  assert.equal(error.status, status, error.message);
  assert.equal(error.errorCode, code, error.message);
}

async function api() {
  const client = connect();
  const subject = "cjs-api-value";
  const first = { schemaType: "AVRO", schema: record("Order", [long("id")]) };
  const id = await client.register(subject, first, false);
  const full = await client.registerFullResponse(subject, first, false);
  assert.equal(full.id, id);
  const second = {
    schemaType: "AVRO",
    schema: record("Order", [long("id"), { name: "note", type: "string", default: "" }]),
  };
  assert.equal(await client.testSubjectCompatibility(subject, second), true);
  const broken = { schemaType: "AVRO", schema: record("Order", [{ name: "id", type: "boolean" }]) };
  assert.equal(await client.testSubjectCompatibility(subject, broken), false);
  assert.equal(await client.testCompatibility(subject, 1, broken), false);
  await refused(client.register(subject, broken, false), 409, 409);
  const newer = await client.register(subject, second, false);
  assert.ok(newer > id);
  assert.deepEqual(await client.getAllVersions(subject), [1, 2]);
  const latest = await connect().getLatestSchemaMetadata(subject);
  assert.deepEqual([latest.id, latest.version, latest.subject], [newer, 2, subject]);
  assert.equal((await connect().getSchemaMetadata(subject, 1)).id, id);
  assert.equal((await connect().getBySubjectAndId(subject, id)).schema, first.schema);
  assert.match(latest.guid, /^[0-9a-f-]{36}$/);
  assert.equal((await connect().getByGuid(latest.guid)).schema, second.schema);
  assert.equal(await connect().getId(subject, first, false), id);
  assert.equal(await connect().getVersion(subject, second, false), 2);
  assert.ok((await client.getAllSubjects()).includes(subject));

  await refused(connect().getId(subject, broken, false), 404, 40403);
  await refused(connect().getBySubjectAndId(subject, 999999), 404, 40403);
  await refused(connect().getLatestSchemaMetadata("cjs-nothing"), 404, 40401);
  await refused(connect().getSchemaMetadata(subject, 9), 404, 40402);
  await refused(
    connect().register("cjs-bad", { schemaType: "AVRO", schema: "{" }, false),
    422,
    42201,
  );

  assert.equal(await client.getDefaultCompatibility(), "BACKWARD");
  await refused(client.getCompatibility(subject), 404, 40408);
  assert.equal(await client.updateCompatibility(subject, Compatibility.FULL), "FULL");
  assert.equal(await client.getCompatibility(subject), "FULL");
  const config = await client.updateConfig(subject, {
    compatibilityLevel: "NONE",
    normalize: true,
  });
  assert.equal(config.compatibilityLevel ?? config.compatibility, "NONE");
  assert.equal((await client.getConfig(subject)).normalize, true);
  await client.register(subject, broken, false);

  assert.equal(await client.deleteSubjectVersion(subject, 1, false), 1);
  assert.deepEqual(await client.getAllVersions(subject), [2, 3]);
  await refused(connect().getSchemaMetadata(subject, 1), 404, 40402);
  assert.equal((await connect().getSchemaMetadata(subject, 1, true)).id, id);
  await refused(client.deleteSubjectVersion(subject, 2, true), 404, 40407);
  assert.equal(await client.deleteSubjectVersion(subject, 1, true), 1);
  assert.deepEqual(await client.deleteSubject(subject, false), [2, 3]);
  await refused(client.deleteSubject(subject, false), 404, 40404);
  assert.deepEqual(await client.deleteSubject(subject, true), [2, 3]);
  await refused(connect().getAllVersions(subject), 404, 40401);
}

async function metadata() {
  const client = connect();
  const subject = "cjs-metadata-value";
  const info = {
    schemaType: "AVRO",
    schema: record("Tagged", [long("id")]),
    metadata: { properties: { owner: "sales" }, tags: { "**.id": ["PII"] } },
    ruleSet: {
      domainRules: [
        { name: "positive", kind: "CONDITION", type: "CEL", mode: "WRITE", expr: "message.id > 0" },
      ],
    },
  };
  const id = await client.register(subject, info, false);
  const found = await connect().getBySubjectAndId(subject, id);
  assert.deepEqual(found.metadata.properties, { owner: "sales" });
  assert.equal(found.ruleSet.domainRules[0].expr, "message.id > 0");
  const latest = await connect().getLatestWithMetadata(subject, { owner: "sales" });
  assert.equal(latest.id, id);
  await refused(connect().getLatestWithMetadata(subject, { owner: "nobody" }), 404, 40403);
}

async function avro() {
  const client = connect();
  const schema = record("Payment", [long("id"), { name: "note", type: "string" }]);
  await client.register("cjs-avro-value", { schemaType: "AVRO", schema }, false);
  const value = { id: 7, note: "x" };
  for (const schemaIdSerializer of [undefined, HeaderSchemaIdSerializer]) {
    const config = { useLatestVersion: true };
    if (schemaIdSerializer) config.schemaIdSerializer = schemaIdSerializer;
    const headers = {};
    const bytes = await new AvroSerializer(client, SerdeType.VALUE, config).serialize(
      "cjs-avro",
      value,
      headers,
    );
    const read = await new AvroDeserializer(connect(), SerdeType.VALUE, {}).deserialize(
      "cjs-avro",
      bytes,
      headers,
    );
    assert.deepEqual(JSON.parse(JSON.stringify(read)), value);
    assert.equal(Object.keys(headers).length, schemaIdSerializer ? 1 : 0);
  }

  const item = record("Item", [{ name: "sku", type: "string" }]);
  await client.register("cjs-item", { schemaType: "AVRO", schema: item }, false);
  const references = [{ name: "cjs.Item", subject: "cjs-item", version: 1 }];
  const basket = {
    schemaType: "AVRO",
    schema: record("Basket", [{ name: "item", type: "cjs.Item" }]),
    references,
  };
  await client.register("cjs-basket-value", basket, false);
  const bytes = await new AvroSerializer(client, SerdeType.VALUE, {
    useLatestVersion: true,
  }).serialize("cjs-basket", { item: { sku: "a" } });
  const read = await new AvroDeserializer(connect(), SerdeType.VALUE, {}).deserialize(
    "cjs-basket",
    bytes,
  );
  assert.deepEqual(JSON.parse(JSON.stringify(read)), { item: { sku: "a" } });
  await refused(client.deleteSubjectVersion("cjs-item", 1, false), 422, 42206);
}

async function json() {
  const client = connect();
  const subject = "cjs-json-value";
  const text = (properties) =>
    JSON.stringify({ type: "object", properties, additionalProperties: false });
  const first = { schemaType: "JSON", schema: text({ id: { type: "integer" } }) };
  await client.register(subject, first, false);
  const bytes = await new JsonSerializer(client, SerdeType.VALUE, {
    useLatestVersion: true,
    validate: true,
  }).serialize("cjs-json", { id: 7 });
  assert.deepEqual(
    await new JsonDeserializer(connect(), SerdeType.VALUE, {}).deserialize("cjs-json", bytes),
    { id: 7 },
  );
  const broken = { schemaType: "JSON", schema: text({ id: { type: "string" } }) };
  await refused(client.register(subject, broken, false), 409, 409);
  await client.register(
    subject,
    { schemaType: "JSON", schema: text({ id: { type: "number" }, note: {} }) },
    false,
  );

  const item = JSON.stringify({
    $id: "https://cjs/item.json",
    type: "object",
    properties: { sku: { type: "string" } },
  });
  await client.register("cjs-json-item", { schemaType: "JSON", schema: item }, false);
  const basket = JSON.stringify({
    type: "object",
    properties: { item: { $ref: "https://cjs/item.json" } },
  });
  const references = [{ name: "https://cjs/item.json", subject: "cjs-json-item", version: 1 }];
  await client.register(
    "cjs-json-basket-value",
    { schemaType: "JSON", schema: basket, references },
    false,
  );
  const filled = await new JsonSerializer(client, SerdeType.VALUE, {
    useLatestVersion: true,
    validate: true,
  }).serialize("cjs-json-basket", { item: { sku: "a" } });
  assert.deepEqual(
    await new JsonDeserializer(connect(), SerdeType.VALUE, { validate: true }).deserialize(
      "cjs-json-basket",
      filled,
    ),
    { item: { sku: "a" } },
  );
}

async function protobuf() {
  const client = connect();
  const field = (name, number, type, typeName) => ({
    name,
    number,
    type,
    typeName,
    label: Label.OPTIONAL,
    jsonName: name,
  });
  const file = [
    {
      name: "cjs/item.proto",
      package: "cjs",
      syntax: "proto3",
      messageType: [{ name: "Item", field: [field("sku", 1, Type.STRING)] }],
    },
    {
      name: "cjs/basket.proto",
      package: "cjs",
      syntax: "proto3",
      dependency: ["cjs/item.proto"],
      messageType: [
        { name: "Unused", field: [field("id", 1, Type.INT64)] },
        {
          name: "Basket",
          field: [field("item", 1, Type.MESSAGE, ".cjs.Item"), field("count", 2, Type.INT32)],
        },
      ],
    },
  ];
  const files = createFileRegistry(create(FileDescriptorSetSchema, { file }));
  const Basket = files.getMessage("cjs.Basket");
  const serializer = new ProtobufSerializer(client, SerdeType.VALUE, { autoRegisterSchemas: true });
  serializer.registry.add(files.getMessage("cjs.Item"));
  serializer.registry.add(Basket);
  const value = create(Basket, {
    item: create(files.getMessage("cjs.Item"), { sku: "a" }),
    count: 3,
  });
  const bytes = await serializer.serialize("cjs-proto", value);
  const read = await new ProtobufDeserializer(connect(), SerdeType.VALUE, {}).deserialize(
    "cjs-proto",
    bytes,
  );
  assert.equal(read.item.sku, "a");
  assert.equal(read.count, 3);
  assert.equal((await client.getLatestSchemaMetadata("cjs/item.proto")).version, 1);
  const text = (type) =>
    `syntax = "proto3";\npackage cjs;\n\nmessage Order {\n  ${type} id = 1;\n}\n`;
  await client.register(
    "cjs-order-value",
    { schemaType: "PROTOBUF", schema: text("int64") },
    false,
  );
  await refused(
    client.register("cjs-order-value", { schemaType: "PROTOBUF", schema: text("string") }, false),
    409,
    409,
  );
}

const programs = { api, metadata, avro, json, protobuf };

(async () => {
  for (const [name, program] of Object.entries(programs)) {
    await program();
    console.log(`ok ${name}`);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

// @kafkajs/confluent-schema-registry against a registry: node kafkajs.js URL [USER PASSWORD]
"use strict";
const assert = require("node:assert/strict");
const { COMPATIBILITY, SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

const [host, username, password] = process.argv.slice(2);
const auth = username ? { username, password } : undefined;
const options = { [SchemaType.AVRO]: {}, [SchemaType.JSON]: {}, [SchemaType.PROTOBUF]: {} };
const connect = () => new SchemaRegistry({ host, auth, retry: { retries: 0 } }, options);

async function avro() {
  const registry = connect();
  const order = {
    type: "record",
    name: "Order",
    namespace: "kjs",
    fields: [{ name: "id", type: "long" }],
  };
  const { id } = await registry.register(order);
  assert.equal((await registry.register(order)).id, id, "registered once");
  assert.equal(await registry.getLatestSchemaId("kjs.Order"), id);
  assert.equal(await registry.getRegistryId("kjs.Order", 1), id);
  const encoded = await registry.encode(id, { id: 7 });
  assert.equal(encoded.readInt32BE(1), id);
  assert.equal(Number((await connect().decode(encoded)).id), 7);

  const grown = {
    ...order,
    fields: [...order.fields, { name: "note", type: "string", default: "none" }],
  };
  const { id: second } = await registry.register(grown);
  assert.notEqual(second, id);
  const read = await connect().decode(encoded, { [SchemaType.AVRO]: { readerSchema: grown } });
  assert.equal(read.note, "none");
  const broken = {
    ...order,
    fields: [
      { name: "id", type: "long" },
      { name: "more", type: "string" },
    ],
  };
  await assert.rejects(connect().register(broken), /incompatible/i);
  await assert.rejects(
    connect().register(
      { type: "record", name: "kjs.Order", fields: [{ name: "x", type: "nosuch" }] },
      { subject: "kjs.Bad" },
    ),
  );
  await assert.rejects(connect().getLatestSchemaId("kjs.nothing"), /not found/i);
  await assert.rejects(connect().getSchema(999999), /not found/i);

  const free = await registry.register(
    { ...order, name: "Free" },
    { subject: "kjs-free", compatibility: COMPATIBILITY.NONE },
  );
  await registry.register(
    { ...order, name: "Other" },
    { subject: "kjs-free", compatibility: COMPATIBILITY.NONE },
  );
  assert.ok(free.id > 0);
  await assert.rejects(
    registry.register(
      { ...order, name: "Third" },
      { subject: "kjs-free", compatibility: COMPATIBILITY.FULL },
    ),
    /does not match the configuration/,
  );
}

async function avroReferences() {
  const registry = connect();
  const item = {
    type: "record",
    name: "Item",
    namespace: "kjs.ref",
    fields: [{ name: "sku", type: "string" }],
  };
  await registry.register(
    { type: SchemaType.AVRO, schema: JSON.stringify(item) },
    { subject: "kjs.ref.Item" },
  );
  const basket = {
    type: "record",
    name: "Basket",
    namespace: "kjs.ref",
    fields: [{ name: "item", type: "kjs.ref.Item" }],
  };
  const schema = {
    type: SchemaType.AVRO,
    schema: JSON.stringify(basket),
    references: [{ name: "kjs.ref.Item", subject: "kjs.ref.Item", version: 1 }],
  };
  const { id } = await registry.register(schema, { subject: "kjs.ref.Basket" });
  const encoded = await registry.encode(id, { item: { sku: "a" } });
  assert.deepEqual(JSON.parse(JSON.stringify(await connect().decode(encoded))), {
    item: { sku: "a" },
  });
  assert.equal(await connect().getLatestSchemaId("kjs.ref.Basket"), id);
}

async function json() {
  const registry = connect();
  const text = (properties) =>
    JSON.stringify({ type: "object", properties, additionalProperties: false });
  const order = { type: SchemaType.JSON, schema: text({ id: { type: "integer" } }) };
  const { id } = await registry.register(order, { subject: "kjs-json-value" });
  const encoded = await registry.encode(id, { id: 7 });
  assert.deepEqual(await connect().decode(encoded), { id: 7 });
  await assert.rejects(registry.encode(id, { id: "seven" }));
  const grown = text({ id: { type: "integer" }, note: { type: "string" } });
  await registry.register({ ...order, schema: grown }, { subject: "kjs-json-value" });
  const broken = text({ id: { type: "string" } });
  await assert.rejects(
    connect().register({ ...order, schema: broken }, { subject: "kjs-json-value" }),
    /incompatible/i,
  );

  const item = JSON.stringify({
    $id: "https://kjs/item.json",
    type: "object",
    properties: { sku: { type: "string" } },
  });
  await registry.register({ type: SchemaType.JSON, schema: item }, { subject: "kjs-json-item" });
  const basket = JSON.stringify({
    $id: "https://kjs/basket.json",
    type: "object",
    properties: { item: { $ref: "https://kjs/item.json" } },
  });
  const references = [{ name: "https://kjs/item.json", subject: "kjs-json-item", version: 1 }];
  const made = await registry.register(
    { type: SchemaType.JSON, schema: basket, references },
    { subject: "kjs-json-basket" },
  );
  const filled = await registry.encode(made.id, { item: { sku: "a" } });
  assert.deepEqual(await connect().decode(filled), { item: { sku: "a" } });
}

async function protobuf() {
  const registry = connect();
  const text = (fields) => `syntax = "proto3"; package kjs; message Order { ${fields} }`;
  const order = { type: SchemaType.PROTOBUF, schema: text("int64 id = 1;") };
  const { id } = await registry.register(order, { subject: "kjs-proto-value" });
  const encoded = await registry.encode(id, { id: 7 });
  assert.equal(Number((await connect().decode(encoded)).id), 7);
  await registry.register(
    { ...order, schema: text("int64 id = 1; string note = 2;") },
    { subject: "kjs-proto-value" },
  );
  const broken = { ...order, schema: text("string id = 1;") };
  await assert.rejects(connect().register(broken, { subject: "kjs-proto-value" }), /incompatible/i);

  const item = {
    type: SchemaType.PROTOBUF,
    schema: 'syntax = "proto3"; package kjs.ref; message Item { string sku = 1; }',
  };
  await registry.register(item, { subject: "kjs-item.proto" });
  const basket = {
    type: SchemaType.PROTOBUF,
    schema:
      'syntax = "proto3"; package kjs.ref; import "kjs-item.proto"; message Basket { Item item = 1; }',
    references: [{ name: "kjs-item.proto", subject: "kjs-item.proto", version: 1 }],
  };
  const made = await registry.register(basket, { subject: "kjs-basket-value" });
  const filled = await registry.encode(made.id, { item: { sku: "a" } });
  const decoded = await connect().decode(filled);
  assert.deepEqual(JSON.parse(JSON.stringify(decoded)), { item: { sku: "a" } });
}

const programs = { avro, avroReferences, json, protobuf };

(async () => {
  for (const [name, program] of Object.entries(programs)) {
    await program();
    console.log(`ok ${name}`);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});

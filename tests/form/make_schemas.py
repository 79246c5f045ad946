#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/form/schemas.jsonl: schemas of the kinds that JSONSchemaBench [2501.10868] collects, written for this project.

Each line: {"name": ..., "kind": ..., "schema": ...}. Kinds: tool calls, Pydantic models, OpenAPI components, configuration files, records,
geometry, driving and robots, recursive documents, and `hard`: what people write that forms do not do, or do in part. The same bytes from the
same script: every choice comes from one seeded generator."""
import json
import random
import sys

R = random.Random(20260101)


def pick(options):
    return R.choice(options)


STRINGS = {
    "name": {"type": "string", "minLength": 1, "maxLength": 60},
    "title": {"type": "string"},
    "email": {"type": "string", "format": "email"},
    "id": {"type": "string", "format": "uuid"},
    "created_at": {"type": "string", "format": "date-time"},
    "birthday": {"type": "string", "format": "date"},
    "opens": {"type": "string", "format": "time"},
    "address": {"type": "string", "format": "ipv4"},
    "host": {"type": "string", "format": "hostname"},
    "homepage": {"type": "string", "format": "uri"},
    "sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    "postcode": {"type": "string", "pattern": "^\\d{5}(-\\d{4})?$"},
    "colour": {"type": "string", "pattern": "^#[0-9a-fA-F]{6}$"},
    "phone": {"type": "string", "pattern": "^\\+?[0-9 ]{6,14}$"},
    "version": {"type": "string", "pattern": "^v?\\d+\\.\\d+\\.\\d+$"},
    "slug": {"type": "string", "pattern": "^[a-z0-9]+(?:-[a-z0-9]+)*$", "maxLength": 32},
    "comment": {"type": ["string", "null"], "maxLength": 200},
    "country": {"enum": ["DE", "FR", "JP", "US", "BR"]},
    "status": {"type": "string", "enum": ["open", "in progress", "done"], "default": "open"},
    "unit": {"const": "m/s"},
}
NUMBERS = {
    "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "count": {"type": "integer"},
    "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    "price": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
    "ratio": {"type": "number", "minimum": 0, "maximum": 1},
    "latitude": {"type": "number", "minimum": -90, "maximum": 90},
    "longitude": {"type": "number", "minimum": -180, "maximum": 180},
    "temperature": {"type": "number"},
    "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    "timeout_ms": {"type": "integer", "minimum": 100, "multipleOf": 100},
    "even": {"type": "integer", "multipleOf": 2},
    "offset": {"type": ["integer", "null"], "minimum": -12, "maximum": 14},
}
OTHERS = {
    "enabled": {"type": "boolean"},
    "verbose": {"type": "boolean", "default": False},
    "parent": {"type": "null"},
    "flag": {"type": ["boolean", "null"]},
    "anything": {},
    "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "none"}]},
}
LEAVES = {**STRINGS, **NUMBERS, **OTHERS}


def leaf(n=1):
    return [(k, json.loads(json.dumps(LEAVES[k]))) for k in R.sample(sorted(LEAVES), n)]


def an_object(members, required=None, **more):
    o = {"type": "object", "properties": dict(members)}
    if required is None:
        required = [k for k, _ in members if R.random() < 0.6]
    if required:
        o["required"] = required
    o.update(more)
    return o


def a_list(items, **more):
    o = {"type": "array", "items": items}
    if R.random() < 0.4:
        o["minItems"] = R.randint(0, 2)
    if R.random() < 0.6:
        o["maxItems"] = R.randint(3, 10)
    o.update(more)
    return o


def tool_calls():
    verbs = ["search", "book", "cancel", "get_weather", "send_mail", "create_event", "transfer", "translate", "list_files", "set_alarm"]
    for i in range(40):
        arguments = an_object(leaf(R.randint(1, 5)), additionalProperties=False)
        if i % 2 == 0:
            yield an_object([("name", {"const": pick(verbs)}), ("arguments", arguments)], ["name", "arguments"])
        else:
            calls = [an_object([("name", {"const": v}), ("arguments", an_object(leaf(R.randint(1, 3))))], ["name", "arguments"])
                     for v in R.sample(verbs, 3)]
            yield an_object([("thought", {"type": "string"}), ("call", {"anyOf": calls})], ["thought", "call"])


def pydantic():
    for i in range(40):
        inner = an_object(leaf(R.randint(2, 4)), title="Inner")
        members = [(k, {**v, "title": k.title()}) for k, v in leaf(R.randint(2, 4))]
        members.append(("inner", {"$ref": "#/$defs/Inner"}))
        if i % 2:
            members.append(("maybe", {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}], "default": None}))
        if i % 3 == 0:
            members.append(("many", {"items": {"$ref": "#/$defs/Inner"}, "type": "array", "title": "Many", "maxItems": 4}))
        if i % 4 == 0:
            members.append(("kind", {"$ref": "#/$defs/Kind"}))
        o = an_object(members, title="Model")
        o["$defs"] = {"Inner": inner, "Kind": {"enum": ["a", "b", "c"], "title": "Kind", "type": "string"}}
        yield o


def openapi():
    for i in range(30):
        base = an_object(leaf(2), description="what all have")
        cat = an_object([("kind", {"type": "string", "enum": ["cat"]}), *leaf(1)], ["kind"])
        dog = an_object([("kind", {"type": "string", "enum": ["dog"]}), *leaf(2)], ["kind"])
        members = leaf(R.randint(1, 3))
        if i % 3 == 0:
            members.append(("pet", {"oneOf": [{"$ref": "#/definitions/Cat"}, {"$ref": "#/definitions/Dog"}],
                                    "discriminator": {"propertyName": "kind"}}))
        if i % 3 == 1:
            members.append(("owner", {"allOf": [{"$ref": "#/definitions/Base"}, an_object(leaf(1))]}))
        if i % 3 == 2:
            members.append(("note", {"type": "string", "nullable": True, "example": "x", "maxLength": 40}))
        o = an_object(members)
        o["definitions"] = {"Base": base, "Cat": cat, "Dog": dog}
        yield o


def configuration():
    sections = ["server", "logging", "database", "cache", "auth", "metrics", "features", "retry"]
    for _ in range(30):
        members = [(s, an_object(leaf(R.randint(2, 5)), additionalProperties=False)) for s in R.sample(sections, R.randint(1, 3))]
        yield an_object(members, [members[0][0]], **{"$schema": "http://json-schema.org/draft-07/schema#", "description": "a file"})


def records():
    for i in range(30):
        members = leaf(R.randint(4, 8))
        if i % 3 == 0:
            members.append(("tags", a_list({"type": "string", "maxLength": 12})))
        if i % 5 == 0:
            members.append(("history", a_list(an_object(leaf(2)), maxItems=3)))
        yield an_object(members)


def geometry():
    position = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}
    for i in range(15):
        if i % 3 == 0:
            yield an_object([("type", {"const": "Point"}), ("coordinates", position)], ["type", "coordinates"])
        elif i % 3 == 1:
            yield an_object([("type", {"enum": ["LineString", "MultiPoint"]}), ("coordinates", a_list(position, minItems=2, maxItems=4 + i))],
                            ["type", "coordinates"])
        else:
            corner = {"type": "array", "prefixItems": [{"type": "number", "minimum": 0}, {"type": "number", "minimum": 0},
                                                         {"type": "string", "maxLength": 2 + i}], "items": False, "minItems": 2}
            yield an_object([("label", {"type": "string", "maxLength": 16}), ("box", {"type": "array", "items": {"type": "integer",
                              "minimum": 0, "maximum": 1000 + i}, "minItems": 4, "maxItems": 4}), ("corner", corner)])


def driving():
    kinds = ["car", "truck", "pedestrian", "cyclist", "animal"]
    for i in range(25):
        thing = an_object([("kind", {"enum": kinds[:2 + i % 4]}), ("distance_m", {"type": "number", "minimum": 0, "maximum": 200}),
                           ("moving", {"type": "boolean"})], ["kind", "distance_m"])
        members = [("objects", a_list(thing, maxItems=4)), ("explanation", {"type": "string", "maxLength": 120}),
                   ("longitudinal", {"enum": ["keep speed", "speed up", "slow down", "stop"]})]
        if i % 2:
            stop = {"if": {"properties": {"longitudinal": {"const": "stop"}}}, "then": {"required": ["reason"]}}
            members.append(("reason", {"enum": ["light", "pedestrian", "queue"]}))
            yield an_object(members, ["objects", "explanation", "longitudinal"], **stop)
        else:
            members.append(("waypoints", {"type": "array", "items": {"type": "array", "items": {"type": "number", "x-format": "0.00"},
                                                                     "minItems": 2, "maxItems": 2}, "minItems": 5, "maxItems": 5}))
            yield an_object(members, [m[0] for m in members])


def recursive():
    for i in range(10):
        node = an_object([("value", pick(list(NUMBERS.values()))), ("children", {"type": "array", "items": {"$ref": "#/$defs/Node"},
                                                                                "maxItems": 1 + i % 2})], ["value"])
        linked = an_object([("value", {"type": "integer"}), ("next", {"anyOf": [{"$ref": "#/$defs/List"}, {"type": "null"}]})], ["value", "next"])
        o = {"$defs": {"Node": node, "List": linked}}
        o["$ref"] = "#/$defs/Node" if i % 2 else "#/$defs/List"
        yield o


def hard():
    text = {"type": "string"}
    yield {"type": "object", "additionalProperties": {"type": "integer"}}
    yield an_object([("labels", {"type": "object", "additionalProperties": text})])
    yield {"type": "object", "patternProperties": {"^x-": text}}
    yield an_object([("a", text)], patternProperties={"^a": {"minLength": 2}})
    yield an_object([("tags", {"type": "array", "items": text, "uniqueItems": True})])
    yield an_object([("set", {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "maxItems": 3})])
    yield an_object([("a", {"not": {"type": "string"}})])
    yield an_object([("a", {"type": "string", "not": {"enum": ["root", "admin"]}})])
    yield an_object([("list", {"type": "array", "contains": {"const": 3}, "items": {"type": "integer"}})])
    yield an_object([("a", text), ("b", text)], dependentRequired={"a": ["b"]})
    yield {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}
    yield {"$ref": "https://example.org/schema.json"}
    yield {"anyOf": [an_object([("a", text)], ["a"]), an_object([("a", {"type": "integer"})], ["a"])]}
    yield {"oneOf": [an_object([("a", text)]), an_object([("b", text)])]}
    yield an_object([("v", {"oneOf": [{"type": "integer"}, {"type": "number"}]})])
    yield an_object([("v", {"anyOf": [{"type": "number"}, an_object([("x", text)], ["x"])]})])
    yield an_object([("word", {"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]{4,8}$"})])
    yield an_object([("word", {"type": "string", "pattern": "\\bword\\b"})])
    yield an_object([("word", {"type": "string", "pattern": "^\\p{Lu}[a-z]*$"})])
    yield an_object([("twice", {"type": "string", "pattern": "^(a|b)\\1$"})])
    yield {"type": "object"}
    yield {"type": "array"}
    yield {"type": "string"}
    yield {"type": "integer"}
    yield {"enum": ["yes", "no"]}
    yield an_object([("x", text)], ["x"], minProperties=1)
    yield an_object([("x", text), ("y", text)], [], minProperties=1)
    yield an_object([("code", {"type": "string", "minLength": 2000})])
    yield an_object([("big", {"type": "integer", "multipleOf": 1000003})])
    yield an_object([("never", {"type": "string", "const": 12})], ["never"])


def main():
    kinds = [tool_calls, pydantic, openapi, configuration, records, geometry, driving, recursive, hard]
    for kind in kinds:
        for number, schema in enumerate(kind()):
            print(json.dumps({"name": f"{kind.__name__}-{number}", "kind": kind.__name__, "schema": schema}, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())

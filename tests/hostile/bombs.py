#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no reader expects, for enemy.py: schemas that ask for far more than they are long (a name and a schema, or its text), and numbers for
every option that takes one."""
import json, os, random, re, shutil, signal

from commands import COMMANDS, again, go, left_behind


def obj(**members):
    return {"type": "object", "properties": members, "required": list(members)}


def nest(depth, inner, wrap):
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def string(pattern, **more):
    return {"type": "string", "pattern": pattern, **more}


def array(items, most, **more):
    return {"type": "array", "items": items, "maxItems": most, **more}


def chain(n, last):
    """$ref after $ref, the last one as given."""
    return {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} if i + 1 < n else last for i in range(n)}}


def doubling(n, last, pair):
    """n definitions, each of which names the next one twice: 2^n leaves."""
    defs = {f"d{i}": pair({"$ref": f"#/$defs/d{i + 1}"}) for i in range(n)}
    defs[f"d{n}"] = last
    return {"$ref": "#/$defs/d0", "$defs": defs}


INT, BOOL, STR = {"type": "integer"}, {"type": "boolean"}, {"type": "string"}
WORD = string("^[a-z]{1,8}$")


def tree(children):
    return {"$ref": "#/$defs/N", "$defs": {"N": obj(v=BOOL) | {"properties": {"v": BOOL, **children}}}}


def ladder(n):
    rule = {}
    for i in range(n):
        rule = {"if": {"properties": {"k": {"const": f"k{i}"}}}, "then": {"properties": {"n": {"maximum": i + 1}}}, **({"else": rule} if rule else {})}
    return {"type": "object", "properties": {"k": {"enum": [f"k{i}" for i in range(n)]}, "n": {"type": "integer", "minimum": 0}}, "required": ["k", "n"], **rule}


def conditions(n):
    return {"type": "object", "properties": {f"m{i}": {"enum": ["a", "b"]} for i in range(n)} | {"x": {"type": "integer", "minimum": 0}}, "required":
            [f"m{i}" for i in range(n)] + ["x"], "allOf": [{"if": {"properties": {f"m{i}": {"const": "a"}}}, "then": {"properties": {"x": {"maximum": 100 + i}}}}
                                                           for i in range(n)]}


def optional(n, **more):
    return {"type": "object", "properties": {f"m{i}": INT for i in range(n)}, "required": [], **more}


def nested_one_of(depth):
    """Members in rules inside of each other, each rule twice."""
    rule = {"required": ["m0"]}
    for i in range(1, depth):
        rule = {"oneOf": [rule, {"anyOf": [{"required": [f"m{i}"]}, {"not": rule}]}]}
    return rule


BOMBS = {
    "objects 31 deep": nest(30, INT, lambda s: obj(a=s)),
    "objects 2000 deep": '{"type":"object","properties":{"a":' * 2000 + '{"type":"null"}' + "}}" * 2000,
    "arrays 28 deep": nest(28, INT, lambda s: array(s, 1)),
    "arrays of 8, 8 deep": nest(8, INT, lambda s: array(s, 8)),
    "arrays of 256, 3 deep": nest(3, BOOL, lambda s: array(s, 256)),
    "at least 256 of 256": nest(2, BOOL, lambda s: array(s, 256, minItems=256)),
    "items without a bound, huge": array(INT, 10**15),
    "minItems huge": array(INT, 10**12, minItems=10**12),
    "anyOf of 256 objects": {"anyOf": [obj(k={"const": f"k{i}"}, v=INT) for i in range(256)]},
    "anyOf of 5000 objects": {"anyOf": [obj(k={"const": f"k{i}"}, v=INT) for i in range(5000)]},
    "anyOf in anyOf, 2^12": nest(12, BOOL, lambda s: {"anyOf": [s, {"type": "null"}]}),
    "anyOf beside anyOf": {"type": "object", "properties": {"a": INT}, "allOf": [{"anyOf": [{"properties": {f"m{i}{j}": INT}, "required": [f"m{i}{j}"]}
                                                                                            for j in range(6)]} for i in range(7)]},
    "objects that begin alike": {"anyOf": [obj(**{f"p{j}": WORD for j in range(12)}, **{f"z{i}": INT}) for i in range(60)]},
    "oneOf of 200 types": {"oneOf": [obj(t={"const": i}, **{f"v{i}": WORD}) for i in range(200)]},
    "oneOf of overlapping ones": {"oneOf": [{"type": "integer", "minimum": i} for i in range(100)]},
    "references 60 long": chain(60, INT),
    "references 60000 long": chain(60000, INT),
    "a reference to itself": {"$ref": "#"},
    "a ring of references": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/a"}}},
    "2^10 leaves by references": doubling(10, BOOL, lambda r: obj(a=r, b=r)),
    "2^60 leaves by references": doubling(60, BOOL, lambda r: obj(a=r, b=r)),
    "2^40 alternatives": doubling(40, INT, lambda r: {"anyOf": [r, array(r, 2)]}),
    "2^40 joined": doubling(40, obj(a=INT), lambda r: {"allOf": [r, r]}),
    "a tree of two": tree({"l": {"$ref": "#/$defs/N"}, "r": {"$ref": "#/$defs/N"}}),
    "a tree of eight": tree({f"c{i}": {"$ref": "#/$defs/N"} for i in range(8)}),
    "a tree of lists": tree({"c": array({"$ref": "#/$defs/N"}, 8)}),
    "a tree of lists of lists": tree({"c": array(array({"$ref": "#/$defs/N"}, 20), 20)}),
    "recursion by members of any name": {"type": "object", "additionalProperties": {"$ref": "#"}},
    "recursion without an end": {"$ref": "#/$defs/N", "$defs": {"N": obj(n={"$ref": "#/$defs/N"})}},
    "counts in counts": string("^((a{1,50}b){1,50}c){1,50}$"),
    "counts of 10^9": string("^a{1000000000}$"),
    "counts up to 2^31": string("^[a-z]{0,2147483648}$"),
    "stars in stars": string("^(((a*)*)*)*$"),
    "(a|a)*": string("^(a|a)*b$", maxLength=60),
    "2^20 states": string("^(a|b)*a(a|b){20}$"),
    "the 30th from the end": string("(a|b)(a|b){29}$", maxLength=200),
    "alternations by 4000": string("^(" + "|".join(f"w{i}x" for i in range(800)) + ")$"),
    "alternations in alternations": string("^" + "(a|bb|ccc|dddd)" * 60 + "$"),
    "look-ahead in a row": string("^" + "".join(f"(?=.*{c})" for c in "abcdefghij") + ".*$", maxLength=40),
    "look-ahead that nothing passes": string("^(?!.*)a$"),
    "all of Unicode": string("^[^\\u0000-\\u001f\"\\\\]{1,200}$"),
    "classes of Unicode": string("^[\\u0100-\\uD7FF\\uE000-\\uFFFF]{1,80}\U0001f600?$"),
    "parentheses 900 deep": string("^" + "(" * 900 + "a" + ")" * 900 + "$"),
    "patterns joined": {"allOf": [string(f".*{c}.*{c}.*") for c in "abcdefgh"] + [{"maxLength": 40}]},
    "maxLength huge": {"type": "string", "maxLength": 2**62},
    "minLength huge": {"type": "string", "minLength": 2**40},
    "maxLength 16384 with a pattern": string("^([a-z] ?)*$", maxLength=16384),
    "multipleOf a large prime": {"type": "integer", "multipleOf": 999999999989},
    "multipleOf 9973 in bounds": {"type": "integer", "multipleOf": 9973, "minimum": -10**14, "maximum": 10**14},
    "multipleOf many": {"type": "integer", "allOf": [{"multipleOf": p} for p in (7, 11, 13, 17, 19, 23, 29, 31)]},
    "multipleOf tiny": {"type": "number", "multipleOf": 1e-300},
    "bounds of numbers": {"type": "number", "minimum": 123456.789012, "exclusiveMaximum": 123456.789013},
    "bounds without a number": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5e-324},
    "enum of 4000 words": {"enum": [f"word number {i}" for i in range(4000)]},
    "enum of 100000 words": {"enum": [f"word number {i}" for i in range(100000)]},
    "enum of 300 words of 2000": {"enum": ["x" * 1900 + f"{i:0100d}" for i in range(300)]},
    "one word of a megabyte": {"const": "y" * 1000000},
    "enum of objects": {"enum": [{"k": i, "v": [i] * 20} for i in range(500)]},
    "30 enums of 1000": obj(**{f"m{i}": {"enum": [f"w{j}" for j in range(1000)]} for i in range(30)}),
    "propertyNames of 4000": {"type": "object", "propertyNames": {"enum": [f"n{i}" for i in range(4000)]}, "additionalProperties": INT},
    "propertyNames by a pattern": {"type": "object", "propertyNames": {"pattern": "^(a|b)*a(a|b){12}$"}, "additionalProperties": INT, "maxProperties": 64},
    "maxProperties huge": {"type": "object", "additionalProperties": STR, "maxProperties": 10**9},
    "300 optional members": optional(300),
    "5000 optional members": optional(5000),
    "maxProperties among optional ones": optional(40, maxProperties=5),
    "half of 200 optional ones": optional(200, maxProperties=100),
    "members equal to members far behind": optional(60, allOf=[{"oneOf": [{"required": [f"m{i}"]}, {"required": [f"m{i + 30}"]}]} for i in range(30)]),
    "required in a deep tree of oneOf": optional(20, **nested_one_of(12)),
    "dependentRequired in a ring": optional(20, dependentRequired={f"m{i}": [f"m{(i + 1) % 20}"] for i in range(20)}),
    "dependentRequired all by all": optional(18, dependentRequired={f"m{i}": [f"m{j}" for j in range(18) if (i * j) % 3 == 0] for i in range(18)}),
    "dependentSchemas": optional(12, dependentSchemas={f"m{i}": {"properties": {f"m{(i + 5) % 12}": {"maximum": i}}} for i in range(12)}),
    "sets of 5 by 5": array({"enum": list("abcde")}, 5, uniqueItems=True),
    "sets of 40": array({"enum": [f"v{i}" for i in range(40)]}, 40, uniqueItems=True),
    "sets in a row": obj(**{f"s{i}": array({"enum": list("abc")}, 3, uniqueItems=True) for i in range(4)}),
    "sets of sets": array(array({"enum": [1, 2, 3]}, 3, uniqueItems=True), 3, uniqueItems=True),
    "if, then, else 20 deep": ladder(20),
    "if, then, else 25 beside": conditions(25),
    "not in not": nest(40, {"type": "string"}, lambda s: {"not": s}),
    "prefixItems of 1000": {"type": "array", "prefixItems": [INT] * 1000, "items": False, "minItems": 1000},
    "prefixItems that end anywhere": {"type": "array", "prefixItems": [{"anyOf": [INT, BOOL, {"type": "null"}, WORD]}] * 40, "items": False},
    "patternProperties of many": {"type": "object", "properties": {f"n_{i}": INT for i in range(60)},
                                  "patternProperties": {f"^n_{i}": {"maximum": 99 - i} for i in range(60)}},
    "anything": True,
    "anything, in a list of lists": array(array({}, 8), 8),
    "a key of 100 kB": obj(**{"k" * 100000: INT}),
    "2000 members": obj(**{f"m{i}": BOOL for i in range(2000)}),
    "surrogates and nulls": {"enum": ["\ud800", "\u0000", "a\u2028b", "\U0001f600" * 300]},
    "x-budget huge": {"type": "string", "x-budget": 2**40},
    "parents in a ring": {"type": "object", "properties": {"a": {"type": "string", "x-parents": ["b"]}, "b": {"type": "string", "x-parents": ["a"]}}},
    "500 parents each": {"type": "object", "properties": {f"m{i}": {"enum": ["a", "b"], "x-parents": [f"m{j}" for j in range(i)]} for i in range(300)}},
    "x-instances huge": {"type": "object", "x-layout": "lines", "properties": {"o": {"type": "string", "x-budget": 8, "x-parents": [], "x-instances": 10**9}}},
    # Just below a bound, where a refusal does not come first.
    "2^13 states": string("^(a|b)*a(a|b){13}$"),
    "30 times 2^11 states": obj(**{f"m{i}": string(f"^(a|b)*a(a|b){{10}}{i}$") for i in range(30)}),
    "54 of any character": string("^.{1,54}$"),
    "20 times 50 of any character": obj(**{f"m{i}": string(f"^.{{1,50}}{i}$") for i in range(20)}),
    "6 look-aheads": string("^" + "".join(f"(?=.*{c})" for c in "abcdef") + "[a-f]{6,12}$"),
    "4 patterns joined": {"allOf": [string(f"{c}.*{c}") for c in "abcd"] + [{"maxLength": 20}]},
    "multipleOf 16381": {"type": "integer", "multipleOf": 16381},
    "20 times multipleOf 9973": obj(**{f"m{i}": {"type": "integer", "multipleOf": 9967 + i} for i in range(20)}),
    "alternatives, 5 by 5 by 5 by 5": {"type": "object", "properties": {"a": INT}, "allOf": [{"anyOf": [{"properties": {f"m{i}{j}": INT}, "required": [f"m{i}{j}"]}
                                                                                                        for j in range(5)]} for i in range(4)]},
    "if, then, else 10 beside": conditions(10),
    "150 optional members": optional(150),
    "dependentRequired in a ring of 10": optional(10, dependentRequired={f"m{i}": [f"m{(i + 1) % 10}"] for i in range(10)}),
    "arrays of 2, 6 deep": nest(6, BOOL, lambda s: array(s, 2)),
    "64 references, 8 times": obj(**{f"m{i}": {"$ref": "#/$defs/d0"} for i in range(8)}) | {"$defs": chain(62, WORD)["$defs"]},
    "4000 words in 20 places": obj(**{f"m{i}": {"enum": [f"place {i} word {j}" for j in range(4000)]} for i in range(20)}),
    "200 alternatives of a pattern each": {"oneOf": [obj(t={"const": f"k{i}"}, v=string(f"^[a-z]{{1,60}}{i}$")) for i in range(200)]},
    "512 arrays": array({"enum": list("abcde")}, 5, uniqueItems=True, minItems=4),
    "x-format huge": obj(a={"type": "number", "x-format": "0" * 100000 + ".0"}),
}


def text(schema):
    """As a document. Its root is an object, as the root of forms is: what is no object becomes a member."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, dict) and (schema.get("type") == "object" or "$defs" in schema and "N" in schema["$defs"]):
        return json.dumps(schema)
    inner = dict(schema) if isinstance(schema, dict) else schema
    defs = {"$defs": inner.pop("$defs")} if isinstance(inner, dict) and "$defs" in inner else {}
    return json.dumps({**obj(a=inner), **defs})


class Late(Exception):
    """The validator took too long: that is its own affair."""


def invalid(schema, answer):
    """Why an answer is not valid, or None. Without python3-jsonschema that it is JSON is all that is asked."""
    try:
        value = json.loads(answer)
    except ValueError as why:
        return f"no JSON: {why}"
    try:
        import jsonschema
    except ImportError:
        return None

    def late(*_):
        raise Late

    signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        jsonschema.validate(value, schema, cls=kind, format_checker=jsonschema.draft202012_format_checker)
    except jsonschema.ValidationError as why:
        return str(why).splitlines()[0][:200]
    except Exception:  # the validator's own limits: time, depth, a pattern or a reference that it cannot read
        return None
    finally:
        signal.alarm(0)
    return None


NUMBERS = ["-1", "0", "1e308", "nan", "inf", "-inf", "9223372036854775808", "18446744073709551616", "", "1e", "0x10", "1e-320", "9" * 40, "1.5", "\u0661",
           "1_000", " 1", "1,5", "-0", "1e400", "--"]
TEMPLATES = {"run": ["--section-temperature trajectory=%", "--verifier relaxed:%", "--verifier relaxed:%u", "--verifier ensemble:%", "--verifier confidence:%",
                     "--width fixed:%", "--drafter lookup:%", "--record {i}/set:%"], "eval": ["--shard %/2", "--shard 0/%", "--width fixed:%"]}
# What each command needs beside the option under test, so small that a value which is taken ends soon; what an option needs beside it.
BASES = {"forward": "-m {m}/tri --rows {i}/rows.json --out o", "run": "-m {m}/tri --form none -p hi --max-tokens 3", "demo": "-m {m}/demo-cot --seed 3 --grow 0",
         "serve": "-m {m}/tri --port 0", "verify": "-m {m}/tri --max-width 2", "simulate": "--count 1 --out o", "import": "comma2k19 {i} --out o",
         "quantize": "{m}/tri --type int8 --out o --records 0", "synthesize": "--like qwen2.5-vl-3b --tiny --out o --layers 1", "grow": "{m}/tri --out o",
         "eval": "-m {m}/pair-target --records {i}/set --count 1", "drive": "--baselines stay --family cut_in --count 1", "reach": "-m {m}/reach-target --episodes 1", "limits": "--machine h100 -m {m}/tri",
         "train": "--config {i}/train.json --steps 1 --out o", "bench forward": "-m {m}/tri --widths 1 --seconds 0.01",
         "bench prefill": "-m {m}/tri --widths 8 --seconds 0.01",
         "bench vision": "-m {m}/demo --repeats 1 --width 64 --height 64", "bench answer": "-m {m}/demo --repeats 1 --decoders fields",
         "bench text": "-m {m}/tri --count 1 --decoders ar --max-tokens 4", "bench trajectory": "-m {m}/demo --count 1",
         "bench decoders": "-m {m}/pair-target --repeats 1 --record {i}/set:0",
         "bench serve": "-m {m}/tri --decoders ar --clients 1 --seconds 0.1 --turns 1 --scenes 1"}
BESIDE = {"--fps": "--video {i}/video", "--first": "--out o --records {i}/set --form model", "--count": "--out o --records {i}/set --form model",
          "--at-once": "--out o --records {i}/set --form model", "--top-log-probs": "--log-probs", "--frames": "--every 0.5", "--key": "--url x",
          "--section-temperature": "--form {i}/form.json", "--record": "-m {m}/pair-target", "--verifier": "--form {i}/form.json", "--speed-of-light": "--measure"}


def options_of(world):
    """(command, option with % for its number) of all that `--help` calls a number."""
    for command in BASES:
        r = go([world.binary, *command.split(), "--help"], world.folder(), 20)
        for name in re.findall(r"^  (?:-\w,)?(--[\w-]+)(?:,--[\w-]+)? (?:INT|UINT|FLOAT)\b", r.out.decode(), re.M):
            yield command, f"{name} %"
        for template in TEMPLATES.get(command, []):
            yield command, template


def options(g):
    w, rng = g.world, random.Random(g.world.rng.random())
    os.makedirs(f"{w.inputs}/video")
    shutil.copy(f"{w.inputs}/0.ppm", f"{w.inputs}/video/0.ppm")
    shutil.copy(f"{w.inputs}/1.ppm", f"{w.inputs}/video/1.ppm")
    every = list(options_of(w))
    if len(every) < 60:
        g.found(f"--help names {len(every)} options with numbers, expected at least 60")
    g.notes = f"{len(every)} options, {len(NUMBERS)} numbers"
    for command, template in every if g.scale >= 1 else rng.sample(every, min(len(every), 40)):
        option, _, value = template.partition(" ")
        base = BASES[command].split()
        if command == "run" and option in BESIDE:
            if "set" in BESIDE[option] or option == "--record":
                base = ["-m", "{m}/pair-target"]
            elif option not in ("--fps", "--top-log-probs"):
                base = [b for b in base if b not in ("--form", "none")]
        if option in base:
            del base[base.index(option):base.index(option) + 2]
        more = BESIDE.get(option, "").split() if command in ("run", "eval", "bench decoders") or option in ("--key", "--frames", "--speed-of-light") else []
        more = [] if option == "--record" or (command != "run" and option in ("--count", "--first")) else more
        for number in NUMBERS if g.scale >= 1 else rng.sample(NUMBERS, max(2, round(len(NUMBERS) * g.scale * 0.5))):
            folder = w.folder()
            words = [x.format(m=w.models, i=w.inputs) for x in [*command.split(), *base, *more, option, value]]
            argv = [w.binary, *[x.replace("%", number) if i == len(words) - 1 else x for i, x in enumerate(words)]]
            r = go(argv, folder, 20, {"AS": 8 << 30}, hit=(signal.SIGTERM, 1.0) if command == "serve" else None)
            if r.code in (0, 2, 3, 130):
                g.count(f"exit {r.code}")
            elif r.code in (4, 5) and b"slipstream" in r.err:
                g.count(f"exit {r.code}")
            else:
                g.found(f"{command} {option} {number!r}: {r.why()}", again(argv))
            if r.code and not r.err.strip():
                g.found(f"{command} {option} {number!r}: exit {r.code} without a word", again(argv))
            for why in left_behind(COMMANDS[0], folder, []) if r.code == 130 or r.code in (2, 3, 4, 5) else []:
                g.found(f"{command} {option} {number!r}, exit {r.code}: {why}", again(argv))
            w.drop(folder)

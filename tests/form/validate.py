#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a second validator (python3-jsonschema): each line of the file is {"schema": ..., "answer": "..."}. Formats are those of Draft 2020-12;
the checker of all drafts has draft 3's `time`, which knows no offset.

Exit 0 where all answers are valid, 1 with the first ones that are not, 77 (skipped) where the module is missing."""
import json
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)


def main(path):
    wrong = count = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            count += 1
            try:
                answer = json.loads(case["answer"])
                kind = jsonschema.validators.validator_for(case["schema"], default=jsonschema.Draft202012Validator)
                jsonschema.validate(answer, case["schema"], cls=kind, format_checker=jsonschema.draft202012_format_checker)
            except (ValueError, jsonschema.ValidationError) as error:
                wrong += 1
                if wrong <= 5:
                    print(f"invalid: {str(error).splitlines()[0]}\n  answer {case['answer']}\n  schema {json.dumps(case['schema'])}")
    print(f"{count} answers, {wrong} invalid")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

import json
import re
import typing
import unittest

from hostler import errors, types
from tests.needs import variable

# The JSON types of Python's.
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}

# What the client calls: method, path and the names in the query.
CALLS = [
    ("post", "/v1/claims", []),
    ("get", "/v1/claims/{}", []),
    ("post", "/v1/claims/{}/touch", []),
    ("post", "/v1/claims/{}/release", []),
    ("post", "/v1/claims/{}/exec", []),
    ("get", "/v1/claims/{}/exec", []),
    ("get", "/v1/claims/{}/exec/{}", []),
    ("delete", "/v1/claims/{}/exec/{}", []),
    ("get", "/v1/claims/{}/exec/{}/output", ["after"]),
    ("post", "/v1/claims/{}/exec/{}/ack", []),
    ("post", "/v1/claims/{}/exec/{}/input", ["offset", "close"]),
    ("post", "/v1/claims/{}/exec/{}/signal", []),
    ("post", "/v1/claims/{}/exec/{}/resize", []),
    ("get", "/v1/claims/{}/files/{}", ["stat", "list", "archive", "after", "limit"]),
    ("put", "/v1/claims/{}/files/{}", ["mode", "archive"]),
    ("delete", "/v1/claims/{}/files/{}", ["recursive"]),
    ("post", "/v1/claims/{}/ports/{}", []),
    ("post", "/v1/claims/{}/ports/{}/links", []),
    ("post", "/v1/claims/{}/waits", []),
    ("get", "/v1/waits/{}", ["wait"]),
    ("post", "/v1/claims/{}/signals", []),
]

# The fields of requests, by schema.
REQUESTS = {
    "ClaimRequest": ["workload", "tenant", "wait", "request_id"],
    "ReleaseRequest": ["discard"],
    "CommandRequest": ["command", "timeout", "user", "workdir", "environment", "stdin", "input", "terminal", "id", "detach"],
    "WaitRequest": ["request_id", "name", "type", "timeout", "on_timeout", "context"],
    "SignalRequest": ["name", "data"],
    "LinkRequest": ["expires_in"],
    "SignalCommandInBody": ["signal"],
    "AckCommandInBody": ["offset"],
    "TerminalSize": ["rows", "columns"],
}


def answers():
    """The types of answers by name."""
    return {n: t for n, t in vars(types).items() if hasattr(t, "__required_keys__") and not n.startswith("_")}


def kind(hint):
    """The schema's type or the name of the schema of a field; None for any value."""
    if hint is typing.Any:
        return None
    hint = typing.get_origin(hint) or hint
    return hint.__name__ if hint not in KINDS else KINDS[hint]


class TestDocument(unittest.TestCase):
    """The client and the server's OpenAPI document agree."""

    @classmethod
    def setUpClass(cls):
        with open(variable("HOSTLER_OPENAPI"), encoding="utf-8") as file:
            cls.document = json.load(file)
        cls.schemas = cls.document["components"]["schemas"]

    def test_answers(self):
        self.assertGreater(len(answers()), 15)
        for name, answer in answers().items():
            with self.subTest(name):
                schema = self.schemas[name]
                self.assertEqual(set(answer.__required_keys__), set(schema.get("required", [])))
                hints = typing.get_type_hints(answer)
                self.assertEqual(set(hints), set(schema["properties"]))
                for field, hint in hints.items():
                    given = schema["properties"][field]
                    reference = given.get("$ref", "").rpartition("/")[2]
                    # A dictionary is an object without a type here.
                    wanted = "object" if reference and kind(hint) == "object" else reference or given.get("type")
                    self.assertEqual(kind(hint), wanted, field)
                    items = given.get("items", {}).get("$ref", "").rpartition("/")[2]
                    if items in answers():
                        self.assertEqual(typing.get_args(hint)[0].__name__, items, field)

    def test_requests(self):
        for name, fields in REQUESTS.items():
            with self.subTest(name):
                schema = self.schemas[name]
                self.assertLessEqual(set(fields), set(schema["properties"]))
                self.assertLessEqual(set(schema.get("required", [])), set(fields))

    def test_temporary_codes(self):
        self.assertEqual(list(errors.TEMPORARY_CODES), self.schemas["Problem"]["x-temporary-codes"])

    def test_calls(self):
        paths = {re.sub(r"\{[^}]*\}", "{}", p): o for p, o in self.document["paths"].items()}
        for method, path, names in CALLS:
            with self.subTest(f"{method} {path}"):
                operation = paths[path][method]
                query = {p["name"]: p.get("required", False) for p in operation.get("parameters", []) if p["in"] == "query"}
                self.assertLessEqual(set(names), set(query))
                self.assertLessEqual({n for n, required in query.items() if required}, set(names))


if __name__ == "__main__":
    unittest.main()

"""A runner that answers as its argument says, rightly or not; no server is asked."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from typing import Any

ONE: dict[str, Any] = {"dtype": "float64", "shape": [], "data": "AAAAAAAA8D8="}
TWO: dict[str, Any] = {"dtype": "float64", "shape": [], "data": "AAAAAAAAAEA="}


def answer(way: str, case: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a case; None for none."""
    name = case["name"]
    right = {"name": name, "values": [ONE]}
    error = {"reason": "UNKNOWN_OP", "code": "UNIMPLEMENTED"}
    match way:
        case "wrong-value":
            return {"name": name, "values": [TWO]}
        case "wrong-dtype":
            return {"name": name, "values": [{**ONE, "dtype": "int64"}]}
        case "wrong-shape":
            return {"name": name, "values": [{**ONE, "shape": [1]}]}
        case "too-few":
            return {"name": name, "values": []}
        case "wrong-name":
            return {**right, "name": "another"}
        case "no-base64":
            return {"name": name, "values": [{**ONE, "data": "!"}]}
        case "error":
            return {"name": name, "error": error}
        case "wrong-reason":
            return {"name": name, "error": {**error, "reason": "SHAPE_MISMATCH"}}
        case "wrong-code":
            return {"name": name, "error": {**error, "code": "NOT_FOUND"}}
        case "hang":
            threading.Event().wait()
        case "end":
            return None
    return right


def main() -> int:
    """Answers until the input ends, or the way says otherwise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way")
    way: str = parser.parse_args().way
    for line in sys.stdin:
        told = answer(way, json.loads(line))
        if told is None:
            return 3
        print("Traceback" if way == "no-json" else json.dumps(told), flush=True)
        if way == "twice":
            print(json.dumps(told), flush=True)
    return 4 if way == "bad-status" else 0


if __name__ == "__main__":
    sys.exit(main())

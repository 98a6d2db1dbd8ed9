"""Functions one can see whole, files one can read at a sitting. The exemptions below may only shrink."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "jobset"
FUNCTION_LIMIT = 70
FILE_LIMIT = 600
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager", "misc"}

FUNCTION_EXEMPTIONS: dict[str, int] = {}
FILE_EXEMPTIONS: dict[str, int] = {}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if "generated" not in path.parts)


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_size_and_name(path: Path) -> None:
    text = path.read_text()
    assert path.stem not in FORBIDDEN_NAMES, "name the module after what it holds"
    assert len(text.splitlines()) <= FILE_EXEMPTIONS.get(name_of(path), FILE_LIMIT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            where = f"{name_of(path)}:{node.name}"
            assert length <= FUNCTION_EXEMPTIONS.get(where, FUNCTION_LIMIT), f"{where} has {length} lines"


def test_exemptions_only_shrink() -> None:
    """An exemption larger than its subject is out of date: lower it."""
    lengths: dict[str, int] = {}
    for path in modules():
        text = path.read_text()
        lengths[name_of(path)] = len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths[f"{name_of(path)}:{node.name}"] = (node.end_lineno or node.lineno) - node.lineno + 1
    for where, limit in {**FUNCTION_EXEMPTIONS, **FILE_EXEMPTIONS}.items():
        assert lengths.get(where) == limit, f"the exemption of {where} should be {lengths.get(where)}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "a module docstring says what it decides"

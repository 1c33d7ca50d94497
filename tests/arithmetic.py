"""Plain arithmetic in data of tests and reference cases: numbers, + - * / **, and a few functions."""

import ast
import math
import operator
from collections.abc import Callable

OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor}


def value_of(text: str) -> float:
    """The value of `64 + 3 * 2**0.5`. KeyError or ValueError for anything else."""
    return _value(ast.parse(text, mode="eval").body)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand):
            return OPERATORS[type(op)](_value(operand))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return FUNCTIONS[name](_value(argument))
    raise ValueError(f"no arithmetic: {ast.unparse(node)}")

"""Finds the queries in the source of a pipeline that can be read without running the source."""

import ast

QUERIES_MAX = 200
CHARACTERS_MAX = 100_000
# Depth of nested expressions: names, and sums of texts.
DEPTH_MAX = 50
# Names that every pipeline has. If a pipeline defines one of them itself, the effect of its calls is unknown.
PREDEFINED = frozenset(("sql", "ref", "landing_zone", "duckdb_conn"))
# Names that refer to names multiply: ten assignments of ten names each would be 10**10 expressions.
VISITS_MAX = 20_000


def queries_in(source):
    """Returns the pieces and lines of each sql() call with a readable text.

    A readable text consists of literals, ref(), landing_zone() and `this`.
    """
    tree = ast.parse(source)
    bound = bindings(tree)
    if not PREDEFINED.isdisjoint(bound):
        return []
    names = assigned_once(tree, bound)
    found = []
    characters = 0
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and node.args and is_query(node.func)):
            continue
        text = node.args[0]
        pieces = pieces_of(text, names, 0)
        if pieces is None:
            continue
        characters += sum(len(value) for _, value in pieces)
        if len(found) == QUERIES_MAX or characters > CHARACTERS_MAX:
            break
        breaks = sum(value.count("\n") for kind, value in pieces if kind == "text")
        found.append({
            "line": text.lineno,
            # In this case, a line of the query is a line of the source.
            "isInPlace": breaks > 0 and text.end_lineno - text.lineno == breaks,
            "pieces": [{"kind": kind, "value": value} for kind, value in pieces],
        })
    return found


def is_query(function):
    if isinstance(function, ast.Name):
        return function.id == "sql"
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("sql", "execute")
        and isinstance(function.value, ast.Name)
        and function.value.id == "duckdb_conn"
    )


def bindings(tree):
    """Counts the bindings of each name in all scopes. A parameter counts twice: each call binds it."""
    bound = {}

    def add(name, count=1):
        if name is not None:
            bound[name] = bound.get(name, 0) + count

    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            add(node.id)
        elif isinstance(node, ast.arg):
            add(node.arg, 2)
        elif isinstance(node, ast.alias):
            add((node.asname or node.name).split(".")[0])
        elif not isinstance(node, (ast.Name, ast.Attribute)):
            # Functions, classes, exceptions and patterns also bind names.
            name = getattr(node, "name", None)
            add(name if isinstance(name, str) else None)
    return bound


def assigned_once(tree, bound):
    """The values of names that one plain assignment binds, and nothing else."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and bound[node.targets[0].id] == 1
    }


def pieces_of(node, names, depth):
    """The (kind, value) of each piece; None if one is computed. `names` caches the pieces of each name."""
    if depth == DEPTH_MAX:
        return None
    if isinstance(node, ast.Constant):
        return [("text", node.value)] if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return joined([node.left, node.right], names, depth)
    if isinstance(node, ast.JoinedStr):
        return joined(node.values, names, depth)
    if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
        return pieces_of(node.value, names, depth + 1)
    if isinstance(node, ast.Name):
        if node.id in names:
            value = names[node.id]
            if isinstance(value, ast.AST):
                # Each name is read once, because sums of sums would multiply. A name that refers to itself
                # has no text.
                names[node.id] = None
                names[node.id] = pieces_of(value, names, depth + 1)
            return names[node.id]
        return [("this", "")] if node.id == "this" else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("ref", "landing_zone"):
        argument = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return [(node.func.id, argument.value)]
    return None


def joined(nodes, names, depth):
    pieces = []
    for node in nodes:
        more = pieces_of(node, names, depth + 1)
        if more is None:
            return None
        pieces += more
        # Repeated sums of a name with itself would become too long.
        if len(pieces) > QUERIES_MAX:
            return None
    return pieces

"""Cycles and chains of directed graphs, given as the targets of each node."""

from collections.abc import Collection, Iterable, Mapping

Graph = Mapping[str, Collection[str]]


def graph_of(arrows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Build a graph from arrows, without arrows from a node to itself."""
    graph: dict[str, set[str]] = {}
    for source, target in arrows:
        graph.setdefault(source, set())
        graph.setdefault(target, set())
        if source != target:
            graph[source].add(target)
    return graph


def shortest_cycles(graph: Graph) -> list[list[str]]:
    """Return a shortest cycle through each node that is on one, without duplicates; each starts with its least node."""
    found = {tuple(_turned(cycle)) for node in sorted(graph) if (cycle := _cycle_through(graph, node))}
    return [list(cycle) for cycle in sorted(found)]


def longest_chain(graph: Graph) -> list[str]:
    """Return the longest path; in a graph with cycles, a long path that visits no node twice."""
    best: dict[str, list[str]] = {}

    def chain(node: str) -> list[str]:
        if node not in best:
            best[node] = []  # during the search, so that a cycle ends here
            best[node] = [node, *max((chain(each) for each in sorted(graph[node])), key=len, default=[])]
        return best[node]

    return max((chain(node) for node in sorted(graph)), key=len, default=[])


def _cycle_through(graph: Graph, start: str) -> list[str] | None:
    """Find a shortest cycle through a node by breadth-first search."""
    paths, seen = [[start]], {start}
    for path in paths:
        for target in sorted(graph[path[-1]]):
            if target == start:
                return path
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return None


def _turned(cycle: list[str]) -> list[str]:
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]

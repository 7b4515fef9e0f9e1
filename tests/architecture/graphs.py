"""Cycles and chains of directed graphs, given as each node's targets."""

from collections.abc import Collection, Iterable, Mapping

Graph = Mapping[str, Collection[str]]


def graph_of(arrows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The graph of arrows, without those from a node to itself."""
    graph: dict[str, set[str]] = {}
    for source, target in arrows:
        graph.setdefault(source, set())
        graph.setdefault(target, set())
        if source != target:
            graph[source].add(target)
    return graph


def shortest_cycles(graph: Graph) -> list[list[str]]:
    """For each node on a cycle a shortest one through it, beginning with its least node; none twice."""
    found = {tuple(_turned(cycle)) for node in sorted(graph) if (cycle := _cycle_through(graph, node))}
    return [list(cycle) for cycle in sorted(found)]


def longest_chain(graph: Graph) -> list[str]:
    """The longest path of a graph; of one with cycles, a long path that enters none twice."""
    best: dict[str, list[str]] = {}

    def chain(node: str) -> list[str]:
        if node not in best:
            best[node] = []  # while its chain is searched: a cycle ends here
            best[node] = [node, *max((chain(each) for each in sorted(graph[node])), key=len, default=[])]
        return best[node]

    return max((chain(node) for node in sorted(graph)), key=len, default=[])


def _cycle_through(graph: Graph, start: str) -> list[str] | None:
    """A shortest cycle through a node, by breadth-first search."""
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

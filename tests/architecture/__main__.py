"""`python -m tests.architecture [ROOT]`: print metrics of the architecture of this checkout or another one."""

import sys
from collections import Counter
from pathlib import Path

from tests.architecture import rules
from tests.architecture.graphs import longest_chain
from tests.architecture.modules import ROOT, SourceTree
from tests.architecture.rooms import ROOMS


def figures(tree: SourceTree) -> dict[str, int]:
    """Return the counts, by name."""
    graph = tree.graph
    folders = Counter(str(module.path.parent) for module in tree.modules if not module.is_package)
    return {
        "modules": sum(folders.values()),
        "folders with modules": len(folders),
        "modules of the fullest folder": max(folders.values()),
        "imports between modules": sum(map(len, graph.values())),
        "modules that service.app imports": len(graph["service.app"]),
        "longest chain of imports": len(longest_chain(graph)),
        "cycles of modules": len(rules.module_cycles(tree)),
        "cycles of folders": len(rules.folder_cycles(tree)),
        "cycles of outer folders": len(rules.folder_cycles(tree, 2)),
    }


def main() -> None:
    """Print the metrics, the longest chain, the cycles, and the imports that no room allows.

    The sources are read, not imported, so the command also works where a forbidden import breaks every test.
    """
    tree = SourceTree(Path(sys.argv[1]) if sys.argv[1:] else ROOT, ("learners", "service"))
    chain = " > ".join(longest_chain(tree.graph))
    rows = "\n".join(f"{name:34}{value:6}" for name, value in figures(tree).items())
    cycles = rules.module_cycles(tree) + rules.folder_cycles(tree) + rules.folder_cycles(tree, 2)
    forbidden = [] if sys.argv[1:] else rules.forbidden_arrows(tree, ROOMS)
    sys.stdout.write("\n".join([rows, chain, *cycles, *forbidden]) + "\n")


if __name__ == "__main__":
    main()

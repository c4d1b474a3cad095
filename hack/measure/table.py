"""What was measured beside what is wanted, and beside what the predecessor needed."""

from dataclasses import dataclass


@dataclass
class Row:
    quantity: str
    measured: float
    unit: str
    goal: float | None = None
    predecessor: float | None = None
    note: str = ""

    def holds(self):
        return self.goal is None or self.measured <= self.goal

    def cells(self):
        ratio = f"1/{self.predecessor / self.measured:.0f}" if self.predecessor and self.measured else ""
        goal = "" if self.goal is None else f"<= {number(self.goal)}"
        mark = "" if self.goal is None else "ok" if self.holds() else "MISSED"
        before = "" if self.predecessor is None else number(self.predecessor)
        return [self.quantity, f"{number(self.measured)} {self.unit}", goal, mark, before, ratio, self.note]


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def show(rows):
    head = ["quantity", "measured", "goal", "", "predecessor", "ratio", "note"]
    cells = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)

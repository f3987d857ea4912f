"""The JSON of a matrix: ``matrix.json`` and ``--json``."""

from __future__ import annotations

from typing import Any

from harness.matrix.model import Cell, Column, Row
from harness.reports.json_report import SCHEMA
from harness.reports.matrix_view import MatrixView


def matrix_document(view: MatrixView) -> dict[str, Any]:
    """The document; its keys are a contract, as those of ``run`` are."""
    table = view.table
    return {
        "schema": SCHEMA,
        "tool": {"version": view.tool},
        "frontends": [_column(column) for column in table.columns],
        "scenarios": [_row(row) for row in table.rows],
        "cells": [_cell(view, cell) for cell in table.in_order()],
        "flips": [
            {
                "scenario": flip.scenario,
                "invariant": flip.invariant,
                "from": flip.before,
                "to": flip.after,
                "direction": flip.direction,
            }
            for flip in view.flips
        ],
        "not_run": [
            {"scenario": scenario, "frontend": frontend} for scenario, frontend in table.not_run()
        ],
        "summary": {**view.counts, "exit": int(view.code)},
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "id": column.id,
        "release": column.release or None,
        "sha256": column.sha256,
        "note": column.note or None,
        "error": column.error,
        "arguments": list(column.arguments),
        "environment": dict(column.environment),
        "mutant": column.mutant,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "refs": list(row.refs),
        "race": row.race,
        "trials_planned": row.trials_planned,
        "known": [entry.model_dump() for entry in row.known],
    }


def _cell(view: MatrixView, cell: Cell) -> dict[str, Any]:
    return {
        "scenario": cell.scenario,
        "frontend": cell.frontend,
        "status": cell.status,
        "reason": cell.reason or None,
        "plays": list(cell.plays),
        "known": list(cell.known),
        "regression": list(cell.regression),
        "blind": list(cell.blind),
        "should": list(cell.should),
        "held": list(cell.held),
        "trials": cell.trials,
        "cut": cell.cut,
        "message": cell.message or None,
        "expected": cell.expected or None,
        "seen": cell.seen or None,
        "evidence": list(cell.evidence),
        "duration_s": cell.duration_s,
        "failure_file": view.failure_path(cell),
        "replay": view.replay(cell),
    }

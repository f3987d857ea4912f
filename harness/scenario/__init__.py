"""Scenario files: model, loader with positions, capabilities asked for."""

"""Traces: the reader."""

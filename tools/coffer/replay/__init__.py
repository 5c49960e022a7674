"""coffer replay: a trace under any allocator."""

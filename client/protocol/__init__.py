"""Vocabulary of the engine-core protocol: ids, messages, codec, profiles, transport seam."""

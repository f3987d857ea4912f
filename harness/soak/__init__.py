"""Long stories: many callers, many of whom leave, while engines are paused, put to sleep and woken."""

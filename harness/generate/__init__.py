"""Scenarios that nobody wrote: made from the scenario model, played, judged, and made small.

``fields`` turns a model into a Hypothesis strategy; ``words`` knows which values mean something;
``drafts`` puts a story together; ``mending`` makes a valid scenario of it; ``trial`` plays it;
``hunt`` looks for one that breaks a promise. Hypothesis makes scenarios and seeds, never single
scheduling choices.
"""

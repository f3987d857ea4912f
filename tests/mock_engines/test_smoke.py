def test_engine_without_rules_streams_what_was_asked_for(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        print(run.events)
        await run.cluster.idle()

    run = play(story)
    print(run.peer.rows())
    assert 0

"""What is executed is vLLM's, and what is not vLLM's is told apart from it."""

from __future__ import annotations

GET = "cls = loaded.get('vllm.v1.engine.coordinator', 'DPCoordinatorProc')\n"


def test_class_of_the_sources_is_executed_and_proven(tree, run_in_child):
    said = run_in_child(
        GET + "proof = loaded.prove(cls)\n"
        "said.update(result=cls().run(), file=proof.file, sha256=proof.sha256)",
        tree.folder,
        tree.checksums,
    )
    assert said == {
        "result": 7,
        "file": str(tree.file.resolve()),
        "sha256": tree.checksums[tree.member],
    }


def test_class_that_is_not_vllms_is_refused(tree, run_in_child):
    said = run_in_child(
        """
        module = loaded.module('vllm.v1.engine.coordinator')
        class DPCoordinatorProc:
            pass
        DPCoordinatorProc.__module__ = module.__name__
        module.DPCoordinatorProc = type('DPCoordinatorProc', (), {'run': lambda self: 8})
        loaded.get('vllm.v1.engine.coordinator', 'DPCoordinatorProc')
        """,
        tree.folder,
        tree.checksums,
    )
    assert said["error"].startswith("ForeignClassError: __main__.DPCoordinatorProc is not vLLM's")


def test_class_that_only_claims_its_module_is_refused(tree, run_in_child):
    said = run_in_child(
        """
        module = loaded.module('vllm.v1.engine.coordinator')
        def run(self):
            return 8
        fake = type('DPCoordinatorProc', (), {'run': run, '__module__': module.__name__})
        run.__module__ = module.__name__
        module.DPCoordinatorProc = fake
        loaded.prove(fake)
        """,
        tree.folder,
        tree.checksums,
    )
    assert "has methods that are not vLLM's" in said["error"]


def test_class_with_a_replaced_method_is_refused(tree, run_in_child):
    said = run_in_child(
        GET + "cls.run = lambda self: 8\nloaded.prove(cls)", tree.folder, tree.checksums
    )
    assert "has methods that are not vLLM's" in said["error"]


def test_subclass_of_ours_is_refused(tree, run_in_child):
    said = run_in_child(
        GET + "loaded.prove(type('DPCoordinatorProc', (cls,), {}))", tree.folder, tree.checksums
    )
    assert said["error"].startswith("ForeignClassError")


def test_stub_is_no_class_of_vllms(tree, run_in_child):
    said = run_in_child("loaded.get('vllm.config', 'VllmConfig')", tree.folder, tree.checksums)
    assert said["error"] == "ForeignClassError: vllm.config.VllmConfig is not a class of vLLM's"


def test_file_that_was_edited_is_not_executed(tree, run_in_child):
    checksums = tree.checksums
    tree.file.write_text("raise SystemExit('executed')\n")
    said = run_in_child(GET, tree.folder, checksums)
    assert "is not the file of the release" in said["error"]


def test_file_that_the_release_has_not_is_refused(tree, run_in_child):
    said = run_in_child(GET, tree.folder, {})
    assert said["error"].endswith("is no file of this release")


def test_own_tree_is_executed_without_checksums(tree, run_in_child):
    assert run_in_child(GET + "said['result'] = cls().run()", tree.folder, None) == {"result": 7}


def test_stub_that_is_used_at_run_time_raises(tree, run_in_child):
    said = run_in_child(GET + "cls().use()", tree.folder, tree.checksums)
    assert said["error"].startswith("StubUsedError: torch.zeros() is a stub here")


def test_second_load_in_one_process_is_refused(tree, run_in_child):
    said = run_in_child(GET + "Loaded(Path(folder), checksums)", tree.folder, tree.checksums)
    assert "need a process of their own" in said["error"]

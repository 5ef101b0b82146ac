"""Acceptance: every claim, and the active proofs that a claim cannot express, as pytest items.

One child process (`python -m nodeprep.accept.worker`) accepts one node. Proofs are the test
functions in `roles/<role>/acceptance/test_*.py` of the node's own roles:

    @pytest.mark.proof("nccl.all_reduce.busbw", level="poc", timeout_s=180)
    def test_all_reduce(proof, gpus):
        result = parse_nccl_test(proof.run(["all_reduce_perf", "-b", "512M", …], timeout_s=170))
        proof.measured("nccl.all_reduce.busbw", result.busbw())

A proof passes only by saying so through `proof`. What it could not measure is unknown, and unknown
never passes.
"""

from infra.provider.ledger import PowerLedger


def test_it_remembers_the_machine_and_not_only_its_name(tmp_path):
    ledger = PowerLedger(tmp_path / "powered-on")
    ledger.add("gpu001", "S-1")
    assert ledger.has("gpu001", "S-1")
    assert not ledger.has("gpu001", "S-2")
    assert not ledger.has("gpu002", "S-1")


def test_it_forgets_and_forgetting_twice_is_no_error(tmp_path):
    ledger = PowerLedger(tmp_path / "powered-on")
    ledger.add("gpu001", "S-1")
    ledger.remove("gpu001")
    ledger.remove("gpu001")
    assert not ledger.has("gpu001", "S-1")

"""A variable stands below those that its value refers to: Kubernetes resolves only these."""

from tests.chart.helm import Document, kind, pod, render


def names(documents: list[Document]) -> list[str]:
    return [entry["name"] for entry in pod(documents)["containers"][0]["env"]]


def test_variables_are_sorted_by_name_without_references() -> None:
    found = names(render({"extraEnv": {"B": "b", "A": "$$(Z)", "_": "a"}}))
    assert found == sorted(found)


def test_a_variable_stands_below_those_that_it_refers_to() -> None:
    extra = {"A": "$(Z)/$(B)", "B": "$(Y)", "Y": "y", "Z": "$(Y)-$(DPO_POD_NAME)"}
    found = names(render({"extraEnv": extra}))
    assert found.index("Y") < found.index("B") < found.index("A")
    assert found.index("DPO_POD_NAME") < found.index("Z") < found.index("A")
    assert sorted(found) == sorted(names(render({"extraEnv": dict.fromkeys(extra, "x")})))


def test_the_service_of_the_api_server_may_be_referred_to() -> None:
    assert kind(render({"extraEnv": {"A": "$(KUBERNETES_SERVICE_HOST)"}}), "JobSet")

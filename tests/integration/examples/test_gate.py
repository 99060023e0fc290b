"""The gate of a site: it counts from when it was told to hold, and what waited is served in order."""

from examples.common.gate import Gate


def serve(gate, number, served):
    def respond():
        served.append(number)
        gate.count(is_gated=True)

    gate.enter(respond)


def test_pages_wait_after_as_many_as_were_wanted_until_they_may_go():
    gate, served = Gate(), []
    gate.obey("hold 2")
    for number in range(5):
        serve(gate, number, served)
    assert served == [0, 1]
    gate.obey("go")
    assert served == [0, 1, 2, 3, 4]


def test_pages_that_were_served_before_do_not_count(capsys):
    gate, served = Gate(), []
    for number in range(9):
        serve(gate, number, served)
    gate.obey("hold 3")
    gate.obey("tell 3")
    for number in range(3):
        assert not capsys.readouterr().out
        serve(gate, number, served)
    assert capsys.readouterr().out == "served 3\n"
    serve(gate, 3, served)
    assert served[-1] == 2

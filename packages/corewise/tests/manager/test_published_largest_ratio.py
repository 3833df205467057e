"""The manager's largest amplification ratio, as commands and the web page know it."""

from __future__ import annotations

from corewise.kube.config import load_config
from corewise.quantities import Ratio
from corewise.views.node_listing import list_cluster
from corewise.views.node_table import row_of
from corewise.views.offline_table import BARS
from corewise.views.top_data import TopData
from corewise.vocabulary.names import AMPLIFICATION_KEY, CONFIG_NAMESPACE
from manager.world import World, amplification


async def test_views_judge_ratios_by_the_managers_option(world: World) -> None:
    await world.add_node("fast")
    await world.configure(amplification=amplification(cpu=12))
    async with world.manager(largest_amplification=Ratio(2000)):
        await world.shows_cpu("fast", "96")
        listed = await list_cluster(world.client, CONFIG_NAMESPACE)
        [row] = [row_of(each, world.clock.now()) for each in listed.nodes]
        config = load_config(str(world.administrator))
        top = TopData(config, world.client, selector="", config_namespace=CONFIG_NAMESPACE, bars=BARS)
        await top.read(top.tables["nodes"])
        for each in (row, *top.tables["nodes"].rows(world.clock.now())):
            assert (each.state.problem, each.amounts.raw, each.amounts.free) == ("", 8000, 96000)
        assert not listed.reading.errors(AMPLIFICATION_KEY)
        assert not top.snapshot.reading.errors(AMPLIFICATION_KEY)

"""The second policy, for comparison: scores in [0, 1] with weights, as most routers have them."""

from __future__ import annotations

from tidegate.domain.pick.situation import Situation


def weighted_sum(situation: Situation) -> dict[str, list[float]]:
    """Parts whose sum is least where cached share, short queue and free KV cache, each weighted, are greatest.

    A part is weight × (1 - score): prefix = uncached ÷ prompt; queue = (waiting + ours that it has not seen) between
    the least and the greatest of the fleet; kv = the used part. Unknown counts as the best: the others decide.
    """
    settings, prompt = situation.settings, max(1, situation.work.prompt_tokens)
    queues = [
        max(len(replica.queued), (replica.sample.waiting or 0) if replica.sample else 0)
        for replica in situation.replicas
    ]
    least = min(queues)
    spread = max(1, max(queues) - least)
    return {
        "prefix": [settings.prefix_weight * tokens / prompt for tokens in situation.uncached],
        "queue": [settings.queue_weight * (queue - least) / spread for queue in queues],
        "kv": [
            settings.kv_weight * ((replica.sample.kv_used_ratio or 0.0) if replica.sample else 0.0)
            for replica in situation.replicas
        ],
    }

"""How work comes in: webhooks, polls and comments become signals, and each signal is one look at its ticket.

`deliveries`        what a webhook's delivery is a hint to do
`poller`            finds tickets by their labels
`labels`            makes the lifecycle labels where a platform wants that, before the first poll
`unannounced`       notices webhooks that fell silent, by what a poll finds
`healer`            has failed deliveries sent again
`signals`           takes signals and has their tickets looked at
`comment_commands`  obeys commands in comments
"""

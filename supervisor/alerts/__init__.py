"""From events to incidents to signed webhooks, through an outbox."""

"""The queue on RabbitMQ, with Redis as its memory and its judge."""

"""What the driver of RabbitMQ does behind a queue."""

import logging

from shoal.queue.rabbitmq import broker


def test_the_log_of_the_driver_stays_out_of_the_log_of_a_worker():
    seen = []
    handler = logging.Handler()
    handler.emit = seen.append
    logging.getLogger().addHandler(handler)
    try:
        logging.getLogger(f"{broker.aiormq.__name__}.connection").error("Unexpected connection close")
    finally:
        logging.getLogger().removeHandler(handler)
    assert not seen

"""The RabbitMQ queue against real servers: many processes, lost answers, deaths and other trouble."""

"""Runs the user's step on a page or a task: within its time, marked for the supervisor, in a thread."""

import asyncio
import contextvars
from datetime import timedelta

from shoal.core.errors import StepEnded, StepTimeout
from shoal.core.model import Task
from shoal.fetch.deadlines import Deadlines
from shoal.scrape.harvest import Harvest
from shoal.scrape.hooks import STEP_THREAD, StepThread
from shoal.scrape.page import Page
from shoal.scrape.step import Step
from shoal.worker.hook_calls import is_cancelled
from shoal.worker.requests.attempt import ProcessorTools
from shoal.worker.task_waits import TaskWaits


class StepRunner:
    """Runs steps, as many at once as the slots of the worker allow."""

    def __init__(self, tools: ProcessorTools, waits: TaskWaits, deadlines: Deadlines) -> None:
        self._markers, self._threads = tools.markers, tools.threads
        self._waits, self._deadlines = waits, deadlines

    async def run(self, step: Step, subject: Page | Task, number: int, time_limit: timedelta) -> Harvest:
        """Return what a step yields; raises StepTimeout, StepEnded, and what the step raises."""
        try:
            await self._waits.begin_step(number)
            with self._deadlines.within(time_limit):
                if step.is_async:
                    if isinstance(subject, Page) and subject.is_long:
                        # Parsing takes long enough to delay everything else on the loop.
                        await asyncio.to_thread(subject.prepare)
                    return await self._markers.run_marked(number, step.harvest_async(subject))
                return await self._run_in_thread(step, subject, number, time_limit.total_seconds())
        except TimeoutError as error:
            raise StepTimeout(step.name, time_limit.total_seconds()) from error
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise StepEnded(step.name, error) from error
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:  # a panic of a library in Rust, for one
            raise StepEnded(step.name, error) from error  # it must end neither the worker nor the run
        finally:
            self._waits.end_step(number)

    async def _run_in_thread(self, step: Step, subject: Page | Task, number: int, seconds: float) -> Harvest:
        def harvest() -> Harvest:
            with self._markers.mark_thread(number):
                try:
                    return step.harvest(subject)
                except (Exception, KeyboardInterrupt, asyncio.CancelledError):
                    raise
                except BaseException as error:
                    # Here: a future does not carry these from one thread to another as it does others.
                    raise StepEnded(step.name, error) from error

        # In the task's context, so that what the step logs is attributed to its task.
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        context.run(STEP_THREAD.set, StepThread(loop, loop.time() + seconds, seconds))
        return await loop.run_in_executor(self._threads, context.run, harvest)

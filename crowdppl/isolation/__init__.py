"""Global state of the process, changed here only: random streams, default types, warning filters, and numbers of threads."""

from crowdppl.isolation import waiting
from crowdppl.isolation.fits import RandomState as RandomState
from crowdppl.isolation.fits import floating as floating
from crowdppl.isolation.fits import in_main_thread as in_main_thread
from crowdppl.isolation.fits import isolated as isolated
from crowdppl.isolation.fits import on_signal as on_signal
from crowdppl.isolation.fits import preserved_warning_filters as preserved_warning_filters
from crowdppl.isolation.fits import random_state as random_state
from crowdppl.isolation.fits import seed_streams as seed_streams
from crowdppl.isolation.fits import set_random_state as set_random_state
from crowdppl.isolation.fits import streams_kept as streams_kept
from crowdppl.isolation.fits import uninterrupted as uninterrupted
from crowdppl.isolation.fits import without_warnings as without_warnings
from crowdppl.isolation.pool import Threads as Threads
from crowdppl.isolation.threads import limited_arrow as limited_arrow
from crowdppl.isolation.threads import limited_threads as limited_threads
from crowdppl.isolation.threads import threads_outside as threads_outside

waiting.watch()

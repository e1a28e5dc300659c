"""Files: written whole or not at all, told from those of others, and replaced by one rule."""

from crowdppl.files.writing import abandoned_parts as abandoned_parts
from crowdppl.files.writing import atomic as atomic
from crowdppl.files.writing import release as release
from crowdppl.files.writing import require_disk_space as require_disk_space
from crowdppl.files.writing import temporary_path as temporary_path

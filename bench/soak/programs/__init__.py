# SPDX-License-Identifier: MIT
"""The programs that are soaked. Another one is a module with a class of base.Soaked, and a line here."""

from soak.programs.base import Soaked
from soak.programs.mariadb import MariaDb
from soak.programs.nginx import Nginx
from soak.programs.postgresql import PostgreSql
from soak.programs.redis import Redis
from soak.programs.services import JavaService, NodeService, PythonService

PROGRAMS: list[Soaked] = [
    Redis(), PostgreSql(), Nginx(), PythonService(), NodeService(), JavaService(), MariaDb(),
]

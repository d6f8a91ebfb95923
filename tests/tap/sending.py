"""A user's command: sends requests to the base URL in its environment, one line of output for each answer.

python sending.py COUNT EXIT_CODE [SECONDS]
"""

from __future__ import annotations

import http.client
import os
import sys
import time
from urllib.parse import urlsplit

base = urlsplit(os.environ["OPENAI_BASE_URL"])
for number in range(int(sys.argv[1])):
    connection = http.client.HTTPConnection(base.netloc, timeout=20)
    connection.request("POST", f"{base.path}/chat/completions", body=f'{{"n":{number}}}')
    print(number, connection.getresponse().read().decode(), flush=True)
    connection.close()
    time.sleep(float((sys.argv[3:] or ["0"])[0]))
sys.exit(int(sys.argv[2]))

"""A program that tells its secrets in every way that programs do, then fails or waits."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

KEY = os.environ["HF_TOKEN"]
FILE = os.environ.get("FROM_FILE", "nothing from a file")


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


Path("got").write_text(f"{len(KEY)} {len(FILE)}")
say("whole:", KEY, "twice:", KEY + KEY)
say("prefix:", KEY[:8], "middle:", KEY[4:17], "from a file:", FILE)
for piece in (KEY[:3], KEY[3:11], KEY[11:], "\n"):
    sys.stdout.write(piece)
    sys.stdout.flush()
    time.sleep(0.2)
say("quoted:", quote(KEY, safe=""), "json:", json.dumps(KEY), "base64:", base64.b64encode(KEY.encode()).decode())
sys.stderr.write(f"\033[1m{KEY}\033[0m\n")
subprocess.run(["sh", "-c", 'echo "by a child: $HF_TOKEN"; env'], check=True)
if "--wait" in sys.argv:
    say("step 1 loss 1.0")
    time.sleep(600)
raise SystemExit(f"RuntimeError: 401 for https://user:{KEY}@hub.example/api")

"""The chat channel `folder`: text files in `in/` are messages, answers are written to `out/`."""

from pathlib import Path

from stenolog import Log, Team
from stenolog.chats import CHANNELS, ChatSession, Delivery, OutgoingMessage


class FolderChat:
    """Takes each file in `in/` once, whatever happens in between, and leaves when all are answered."""

    def __init__(self, team: Team, log: Log, *, folder: str, conversation: str = "folder") -> None:
        self.folder = Path(folder)
        (self.folder / "out").mkdir(parents=True, exist_ok=True)
        self.session = ChatSession(team, Delivery(log[conversation], f"folder:{folder}", self.send))

    async def send(self, message: OutgoingMessage) -> None:
        name = f"{message.position:06}-{message.nth}-{message.speaker}.txt"
        (self.folder / "out" / name).write_text(message.text, encoding="utf-8")

    async def serve(self) -> None:
        async with self.session.open():
            for file in sorted(self.folder.glob("in/*.txt")):
                await self.session.receive(file.read_text(encoding="utf-8"), id=f"folder-{file.name}")
                await self.session.drain()


CHANNELS.add("folder", FolderChat)

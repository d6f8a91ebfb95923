"""A question about a picture, which is stored in the session as base64."""

from base64 import b64encode
from pathlib import Path

from agents import Agent, Runner, SQLiteSession, TResponseInputItem
from openai.types.responses import ResponseInputImageParam, ResponseInputTextParam

url = f"data:image/png;base64,{b64encode(Path('loaf.png').read_bytes()).decode()}"
text: ResponseInputTextParam = {"type": "input_text", "text": "What is this?"}
image: ResponseInputImageParam = {"type": "input_image", "image_url": url, "detail": "auto"}
session = SQLiteSession("chat", "chat.db")
message: list[TResponseInputItem] = [{"role": "user", "content": [text, image]}]
print(Runner.run_sync(Agent("guide", model="gpt-5.2"), message, session=session).final_output)

"""Words that somebody said, in any conversation."""

import stenolog

for hit in stenolog.open("chat.db").search("paris -london"):
    print(hit.conversation, hit.position, hit.snippet)

"""A projection of one's own: its state is stored, so that the next call begins where this one ended."""

import stenolog


@stenolog.fold(0, state=int)
def words(total: int, entry: stenolog.Entry) -> int:
    return total + len(getattr(entry.event, "text", "").split())


print(stenolog.open("chat.db")["chat"].fold(words))

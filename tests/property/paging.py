"""Reading a listing to its end."""


def pages(ask, of, limit):
    """All rows of a listing, page by page."""
    found, cursor = [], None
    while True:
        page = ask(cursor=cursor, limit=limit)
        assert len(of(page)) <= limit
        found += of(page)
        before, cursor = cursor, page.next_cursor
        if cursor is None:
            return found
        assert (limit, True) == (len(of(page)), before != cursor), "a full page, and a step further"

"""The report a geologist reads: one HTML file that needs nothing else, and the same as JSON.

``content`` is what it tells, ``words`` the plain sentences, ``charts`` and ``pictures`` what it
shows, ``page`` the HTML.
"""

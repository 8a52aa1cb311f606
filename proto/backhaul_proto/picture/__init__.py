"""A tape's graph as a drawing: for notebooks, and for the server's web page.

Both sides draw the same, so it stands where both may import it. It knows neither tapes nor messages.
"""

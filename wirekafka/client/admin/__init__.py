"""The state of a cluster that operators read and change: ACLs, users, reassignments and the like.

Belongs here: requests that the commands and the console's pages share, with their results as
values. Does not belong here: what these look like on a screen.
"""

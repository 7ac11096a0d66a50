"""Commands that copy the data of nodes: snapshots, branches, mirrors of other clusters."""

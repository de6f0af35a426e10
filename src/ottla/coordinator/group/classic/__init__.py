"""Groups whose members share out the work among themselves: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

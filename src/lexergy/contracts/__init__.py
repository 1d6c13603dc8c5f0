"""The laws every component declares, checked by enumeration."""

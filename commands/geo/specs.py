"""The syntax of the commands for places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spec.grammar import KEY, block, double, integer, key, many, oneof, optional, string, switch, token

if TYPE_CHECKING:
    from ..spec.grammar import History, Tree

_LONGITUDE, _LATITUDE = double("longitude"), double("latitude")
_UNIT = oneof("unit", token("M"), token("KM"), token("FT"), token("MI"))
_MEMBERS = optional(many(string("member")))
_ORDER = optional(oneof("order", token("ASC"), token("DESC")))
_COUNT = optional(block("count-block", integer("count", "COUNT"), switch("ANY")))
_COUNT_ANY_LATER = optional(block("count-block", integer("count", "COUNT"), switch("ANY", since="6.2.0")))
_WITH = (switch("WITHCOORD"), switch("WITHDIST"), switch("WITHHASH"))
_FROM_AND_BY = (
    oneof(
        "from",
        string("member", "FROMMEMBER"),
        block("fromlonlat", _LONGITUDE, _LATITUDE, after="FROMLONLAT"),
    ),
    oneof(
        "by",
        block("circle", double("radius", "BYRADIUS"), _UNIT),
        block("box", double("width", "BYBOX"), double("height"), _UNIT),
    ),
    _ORDER,
    _COUNT,
)
_STORE = optional(
    oneof(
        "store",
        key("storekey", "STORE", spec=1, display="key"),
        key("storedistkey", "STOREDIST", spec=2, display="key"),
    )
)
_UNITS: History = (("7.0.0", "Units may be in capitals."),)
_ANY_AND_UNITS: History = (("6.2.0", "Added ANY for COUNT."), *_UNITS)

GEOADD: Tree = (
    KEY,
    optional(oneof("condition", token("NX"), token("XX"), since="6.2.0")),
    switch("CH", name="change", since="6.2.0"),
    many(block("data", _LONGITUDE, _LATITUDE, string("member"))),
)
GEOADD_HISTORY: History = (("6.2.0", "Added CH, NX and XX."),)
GEODIST: Tree = (KEY, string("member1"), string("member2"), optional(_UNIT))
GEOHASH: Tree = (KEY, _MEMBERS)
GEOPOS: Tree = (KEY, _MEMBERS)
GEOSEARCH: Tree = (KEY, *_FROM_AND_BY, *_WITH)
GEOSEARCH_HISTORY: History = _UNITS
GEOSEARCHSTORE: Tree = (key("destination"), key("source", spec=1), *_FROM_AND_BY, switch("STOREDIST"))
GEOSEARCHSTORE_HISTORY: History = _UNITS
GEORADIUS_RO: Tree = (
    *(KEY, _LONGITUDE, _LATITUDE, double("radius"), _UNIT),
    *(*_WITH, _COUNT_ANY_LATER, _ORDER),
)
GEORADIUS_RO_HISTORY: History = _ANY_AND_UNITS
GEORADIUS: Tree = (*GEORADIUS_RO, _STORE)
GEORADIUS_HISTORY: History = _ANY_AND_UNITS
GEORADIUSBYMEMBER_RO: Tree = (KEY, string("member"), double("radius"), _UNIT, *_WITH, _COUNT, _ORDER)
GEORADIUSBYMEMBER_RO_HISTORY: History = _ANY_AND_UNITS
GEORADIUSBYMEMBER: Tree = (*GEORADIUSBYMEMBER_RO, _STORE)
GEORADIUSBYMEMBER_HISTORY: History = _ANY_AND_UNITS
